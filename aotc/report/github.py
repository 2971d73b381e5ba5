"""GitHub Actions: annotations, which are commands in a step's output, and the step's summary in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from aotc.errors import AotcError
from aotc.parity.summary import OutputSummary, summarise
from aotc.parity.verdict import AnyVerdict, accuracy_text, by_part
from aotc.text import plain

_PLACE = re.compile(r"(?P<file>[^\s()\[\];,:]+\.py):(?P<line>\d+)")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_COLUMNS = ("output", "cases", "max abs", "bound there", "worst/bound", "")
_ROWS = 200
"""Rows of the table: GitHub shows no summary of more than 1 MiB."""


def place_in(where: str | None) -> tuple[str, int] | None:
    """Return the first source line that a message's place names, as file and number."""
    match = _PLACE.search(where or "")
    return (match["file"], int(match["line"])) if match else None


def annotation(
    level: Literal["error", "warning"], title: str, message: str, place: tuple[str, int] | None = None
) -> str:
    """Return the line that makes GitHub show ``message``, at ``place`` if there is one.

    Escaped as GitHub documents it, so that no name from a model ends the line or adds a property.
    """
    properties = {"file": place[0], "line": str(place[1])} if place else {}
    fields = ",".join(f"{key}={_property(value)}" for key, value in {**properties, "title": title}.items())
    return f"::{level} {fields}::{_data(message)}"


def _data(text: str) -> str:
    return plain(text, keep="\n").replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(
    command: str, verdict: AnyVerdict | None, notes: Sequence[str] = (), error: AotcError | None = None
) -> str:
    """Return the Markdown of one command: the worst figures of each output, notes, and the error if any."""
    level = ", at level graph" if verdict is not None and verdict.level == "graph" else ""
    blocks = [f"### {_text(command)}: {'failed' if error is not None else 'passed'}{level}"]
    if verdict is not None:
        blocks.append(_table(verdict))
        if verdict.accuracy is not None:
            blocks.append(accuracy_text(verdict.accuracy, verdict.reference, verdict.level))
    if notes:
        blocks.append("\n".join(f"- {_text(note)}" for note in notes))
    if error is not None:
        blocks.append(_fenced(error.render()))
    return "\n\n".join(blocks) + "\n\n"


def _table(verdict: AnyVerdict) -> str:
    rows = [
        _row(f"{part}/{each.name}" if part else each.name, each)
        for part, graph in by_part(verdict).items()
        for each in summarise(graph.engines)
    ]
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows[:_ROWS]]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return text + (f"\n\n{len(rows) - _ROWS} more outputs" if len(rows) > _ROWS else "")


def _row(name: str, summary: OutputSummary) -> list[str]:
    worst = summary.worst
    figures = [f"{worst.max_abs:.2e}", worst.bound, f"{worst.ratio:.2f}"]
    return [_text(name), str(summary.cases), *figures, "pass" if summary.passed else "**FAIL**"]


def _text(text: str) -> str:
    """Return text in which nothing is Markdown or HTML: a backslash takes the meaning of any punctuation."""
    return _PUNCTUATION.sub(r"\\\g<0>", plain(text))


def _fenced(text: str) -> str:
    """Return lines as a block of code, in a fence that is longer than any inside."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, plain(text, keep="\n"), fence])


def in_repository(file: str, arguments: Sequence[str], workspace: Path) -> str:
    """Return the path of a source file as GitHub knows it: from the root of the repository.

    Messages name some files without their folder; one of the command's arguments then says where it lies.
    """
    paths = [Path(re.sub(r"(\.py):\w+$", r"\1", text)) for text in arguments]  # model.py:part
    named = [path for path in paths if path.name == file]
    path = Path(file) if Path(file).exists() or not named else named[0]
    resolved = path.resolve()
    return str(resolved.relative_to(workspace)) if resolved.is_relative_to(workspace) else str(path)
