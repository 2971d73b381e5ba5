"""stdout is the result, stderr is progress: text or one JSON document, a live line or a line a stage."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from aotc.text import plain

_PIPE_WIDTH = 120
"""Columns where there is no terminal to ask."""
_UNBOUNDED = 10_000
PRINTED = "aotc.json-printed"
"""Key in click's ``meta``: stdout has its JSON document."""


class _Console(Console):
    """Leaves a broken pipe to ``failures``, as every other error."""

    def on_broken_pipe(self) -> None:
        raise  # rich calls this while it handles the BrokenPipeError


def console(*, err: bool = False) -> Console:
    """Return a console on stdout or stderr; NO_COLOR is honoured."""
    stream = sys.stderr if err else sys.stdout
    width = None if stream is not None and stream.isatty() else _PIPE_WIDTH
    return _Console(stderr=err, width=width, highlight=False, emoji=False, markup=False)


def say(text: str, *, err: bool = False) -> None:
    """Print lines of plain text."""
    click.echo(plain(text, keep="\n"), err=err)


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as text that is valid Unicode, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def print_json(document: Mapping[str, Any]) -> None:
    """Print exactly one JSON document on stdout: in ASCII, so that every locale can carry it."""
    click.echo(json.dumps(_finite(document), indent=2, allow_nan=False))
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta[PRINTED] = True


def _finite(value: Any) -> Any:
    """Return ``value`` with null for the numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Fitting:
    """A table; on a screen that is too narrow for it, one line a cell, so that no figure is cut off."""

    def __init__(self, table: Table, columns: list[str], rows: list[list[str]]) -> None:
        self._table, self._columns, self._rows = table, columns, rows

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(out, options.update_width(_UNBOUNDED), self._table).minimum
        if needed <= options.max_width:
            yield self._table
            return
        for row in self._rows:
            for column, cell in zip(self._columns, row, strict=True):
                if cell:
                    yield Text(f"{column}: {cell}" if column else cell, overflow="fold")
            yield Text("")


def table(columns: list[str], rows: list[list[object]], *, numbers: int = 0) -> _Fitting:
    """Return a table whose columns from ``numbers`` on are numbers (0: none is).

    Every cell is plain text, never markup, because names come from models.
    """
    texts = [[plain(str(cell)) for cell in row] for row in rows]
    result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        result.add_column(Text(column), justify="right" if 0 < numbers <= index else "left", overflow="fold")
    for row in texts:
        result.add_row(*map(Text, row))
    return _Fitting(result, columns, texts)


class StageProgress:
    """Tells of stages on stderr: a spinner with the case on a terminal, one line a stage elsewhere."""

    def __init__(self) -> None:
        self._console = console(err=True)
        live = self._console.is_terminal and not self._console.is_dumb_terminal and not os.environ.get("CI")
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
            self._status.update(Text(f"{stage}  {plain(detail)[:60]}"))

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
