"""stdout is the result, stderr is progress: one JSON document or text, a live line on a terminal or a line a stage."""

from __future__ import annotations

import json
import os
import sys
import time
from types import TracebackType
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text


_PIPE_WIDTH = 120
"""Columns where there is no terminal to ask."""


def console(*, err: bool = False) -> Console:
    """Return a console on stdout or stderr; NO_COLOR and CI are honoured."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(stderr=err, width=width, highlight=False, emoji=False, markup=False)


def print_json(document: dict[str, Any]) -> None:
    """Print exactly one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def table(columns: list[str], rows: list[list[object]], *, numbers: int = 0) -> Table:
    """Return a table whose columns from ``numbers`` on are numbers (0: none is).

    Every cell is plain text, never markup, because names come from models.
    """
    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        result.add_column(escape(column), justify="right" if 0 < numbers <= index else "left")
    for row in rows:
        result.add_row(*(Text(_plain(str(cell))) for cell in row))
    return result


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


class StageProgress:
    """Tells of stages on stderr: a spinner with the current case on a terminal, one line a stage elsewhere."""

    def __init__(self) -> None:
        self._console = console(err=True)
        live = self._console.is_terminal and not os.environ.get("CI")
        self._status = self._console.status("") if live else None
        self._stage: tuple[str, float] | None = None

    def __enter__(self) -> StageProgress:
        if self._status is not None:
            self._status.start()
        return self

    def __call__(self, stage: str, detail: str) -> None:
        """Be told that ``stage`` begins (no detail) or goes on."""
        if not detail:
            self._finish()
            self._stage = (stage, time.perf_counter())
        if self._status is not None:
            self._status.update(Text(f"{stage}  {_plain(detail)[:60]}"))

    def _finish(self) -> None:
        if self._stage is not None:
            name, start = self._stage
            self._console.print(f"{name:<10} {time.perf_counter() - start:6.1f} s")
            self._stage = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
        if kind is None:
            self._finish()
