"""The catalogue of passes: documentation made from what the passes say of themselves."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence

from aotc.rewrite.contract import Pass

SECTIONS = ("Rewrites", "Requires", "Refuses when", "Numerics")
"""The sections that every pass's docstring has, in this order."""

_HEADER = """\
# Passes

A pass takes a graph and returns it rewritten. One pass a file; the file, the class and the name on the
command line agree: `fold_constants.py`, `FoldConstants`, `fold-constants`. Its cases are in
`tests/passes/cases/<name>.txt`: each is a graph before and after, and every one is executed.

This page is generated from the docstrings (`aotc.rewrite.catalogue.to_markdown`); a test compares.
"""
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):\n((?:    .*\n|\n)+)", re.MULTILINE)


def sections(cls: type[Pass]) -> dict[str, str]:
    """Return the sections of the docstring of ``cls`` by title, each as one paragraph."""
    text = inspect.getdoc(cls) or ""
    return {title: " ".join(body.split()) for title, body in _SECTION.findall(text + "\n")}


def to_markdown(passes: Sequence[type[Pass]]) -> str:
    """Return the catalogue of ``passes`` in Markdown, in their order."""
    rows = [f"| [`{cls.name()}`](#{cls.name()}) | {summary(cls)} |" for cls in passes]
    table = "\n".join(["| pass | what it does |", "|---|---|", *rows])
    return "\n".join([_HEADER, table, *map(_entry, passes)])


def summary(cls: type[Pass]) -> str:
    """Return the first paragraph of the docstring of ``cls``."""
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")


def _entry(cls: type[Pass]) -> str:
    lines = ["", f"## {cls.name()}", "", summary(cls), ""]
    lines += [f"- *{title}*: {text}" for title, text in sections(cls).items()]
    lines += [f"- *Relation*: `{cls.relation.value}`"]
    options = [
        f"`{field.name}` ({field.type}, default `{field.default}`)" for field in dataclasses.fields(cls)
    ]
    lines += [f"- *Options*: {', '.join(options)}"] if options else []
    return "\n".join(lines) + "\n"
