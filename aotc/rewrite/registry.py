"""Finding and making passes by the text that names them: ``fold-constants{max_bytes=16}``."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from aotc.errors import UsageError
from aotc.rewrite.contract import Pass

_SPEC = re.compile(r"(?P<name>[a-z0-9-]+)(\{(?P<options>.*)\})?")


def find(name: str, passes: Sequence[type[Pass]]) -> type[Pass]:
    """Return the pass of ``passes`` called ``name``.

    Raises:
        UsageError: There is none; the hint has the nearest name.
    """
    known = {cls.name(): cls for cls in passes}
    if name not in known:
        raise UsageError(f"there is no pass '{name}'", hint=_suggestion(name, known))
    return known[name]


def parse_pass(text: str, passes: Sequence[type[Pass]]) -> Pass:
    """Return the pass that ``text`` names, options and all: the inverse of ``str(pass)``.

    Raises:
        UsageError: The text has another form, or names an unknown pass or option.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"'{text}' does not name a pass", hint="write name or name{option=value,option=value}"
        )
    cls = find(match["name"], passes)
    fields = {field.name for field in dataclasses.fields(cls)}
    options = _literals(text, match["options"] or "")
    for name in options:
        if name not in fields:
            raise UsageError(f"{cls.name()} has no option '{name}'", hint=_suggestion(name, fields))
    return cls(**options)


def _literals(text: str, options: str) -> dict[str, Any]:
    """Read ``a=1,b=(2,3)`` as Python reads keyword arguments, allowing only literals."""
    try:
        call = ast.parse(f"_({options})", mode="eval").body
        assert isinstance(call, ast.Call)
        pairs = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        positional = bool(call.args)
    except (ValueError, SyntaxError) as error:
        raise UsageError(f"the options of '{text}' are not literals", hint="write option=value") from error
    if positional:
        raise UsageError(f"the options of '{text}' have no names", hint="write option=value")
    return pairs


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(names) or 'none'}"
