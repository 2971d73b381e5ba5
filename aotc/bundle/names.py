"""Which file names a bundle may hold.

A bundle travels: over archives, object stores and file systems that fold case. So a name is plain ASCII, at
most one folder deep, and no two names may become one on a file system that ignores case. The rules also make
it impossible to name anything outside the bundle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, WithJsonSchema

from aotc.errors import IntegrityError

DESCRIPTION = "bundle.json"
"""The file that describes all the others."""
ASSETS = "assets"
"""The folder of the files that travel with a model: tokenizer, labels, licence."""

REPORT = "report.html"
"""The file for people, beside the others."""

_OWN = frozenset({ASSETS, "golden", "weights"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}"
_NAME = re.compile(rf"{_PART}(/{_PART})?")


def fault_of(name: str) -> str | None:
    """Return what is wrong with the file name ``name``, or None."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"the file name {name!r} is not allowed in a bundle: names are ASCII letters, digits and _ . + -, "
        "do not start with a dot, and are at most one folder deep"
    )


def part_fault(name: str) -> str | None:
    """Return what is wrong with ``name`` as the name of a part of a model, or None."""
    if not _IDENTIFIER.fullmatch(name):
        return f"a part cannot be called {name!r}: use a Python identifier of ASCII letters, digits and _"
    if name.casefold() in _OWN:
        return f"a part cannot be called {name!r}: a bundle has something of its own by that name"
    return None


def clash_in(names: Iterable[str]) -> str | None:
    """Return the first clash among ``names``: case twins of files or folders, or a file that is a folder."""
    spelled: dict[str, str] = {}
    for name in sorted(names):
        folder, _, _ = name.rpartition("/")
        for part in filter(None, (f"{folder}/" if folder else "", name)):
            key = part.casefold().rstrip("/")
            if spelled.setdefault(key, part) != part:
                first, second = spelled[key].rstrip("/"), part.rstrip("/")
                return f"the names {first!r} and {second!r} are one on a file system that ignores case"
    return None


def check_name(name: str) -> str:
    """Return ``name`` if a bundle may hold it.

    Raises:
        IntegrityError: The name is absolute, climbs, is nested too deep or has characters that do not travel.
    """
    if fault := fault_of(name):
        raise IntegrityError(fault)
    return name


def check_names(names: Iterable[str]) -> None:
    """Check every name by itself and against the others.

    Raises:
        IntegrityError: A name that is not allowed, or two names that a file system may confuse.
    """
    listed = [check_name(name) for name in names]
    if clash := clash_in(listed):
        raise IntegrityError(clash)


def _validated(name: str) -> str:
    if fault := fault_of(name):
        raise ValueError(fault)
    return name


FileName = Annotated[
    str,
    AfterValidator(_validated),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"}),
]
"""A relative POSIX name that :func:`check_name` allows."""
