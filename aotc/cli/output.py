"""stdout is the result, stderr is progress: text or one JSON document, a bar or a line a stage."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Literal

import click
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table
from rich.text import Text

from aotc.text import plain

_PIPE_WIDTH = 120
"""Columns where there is no terminal to ask."""
_NAME = 16
"""Columns that a name gets at least; a longer one wraps."""
_GAP = 3
"""Columns between two columns of a table."""
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


def harmless(text: str) -> str:
    """Return text that gives no command to a runner of GitHub, which takes some lines of any output for one.

    Both of its spellings are broken by a space: ``::error::``, and ``##[error]`` anywhere in a line.
    """
    if "GITHUB_ACTIONS" not in os.environ:
        return text
    return re.sub(":(?=:)|##(?=\\[)", r"\g<0> ", text)


def say(text: str, *, err: bool = False) -> None:
    """Print lines of plain text."""
    click.echo(harmless(plain(text, keep="\n")), err=err)


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path as text that is valid Unicode, whatever bytes its name has."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def print_json(document: Mapping[str, Any]) -> None:
    """Print exactly one JSON document on stdout: in ASCII, so that every locale can carry it."""
    text = json.dumps(_finite(document), indent=2, allow_nan=False)
    click.echo(text.replace("##[", r"\u0023#["))  # a runner of GitHub would take it for a command
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
    """A table; where the screen is too narrow without its spare columns, and then one line a cell.

    Names wrap inside their cell; no figure is ever cut off.
    """

    def __init__(
        self, columns: list[str], rows: list[list[str]], numbers: int, spare: Collection[str]
    ) -> None:
        self._columns, self._rows, self._numbers, self._spare = columns, rows, numbers, spare

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        every = range(len(self._columns))
        for kept in (list(every), [i for i in every if self._columns[i] not in self._spare]):
            if sum(map(self._narrowest, kept)) + _GAP * (len(kept) - 1) <= options.max_width:
                yield self._table(kept)
                return
        for row in self._rows:
            for column, cell in zip(self._columns, row, strict=True):
                if cell:
                    yield Text(f"{column}: {cell}" if column else cell, overflow="fold")
            yield Text("")

    def _is_number(self, index: int) -> bool:
        return 0 < self._numbers <= index

    def _narrowest(self, index: int) -> int:
        """Return how many characters a column needs at least."""
        texts = [self._columns[index], *(row[index] for row in self._rows)]
        if self._is_number(index):
            return max(map(len, texts))
        return min(max((len(word) for text in texts for word in text.split()), default=0), _NAME)

    def _table(self, kept: list[int]) -> Table:
        result = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for index in kept:
            number = self._is_number(index)
            justify: Literal["left", "right"] = "right" if number else "left"
            result.add_column(Text(self._columns[index]), justify=justify, overflow="fold", no_wrap=number)
        for row in self._rows:
            result.add_row(*(Text(row[index]) for index in kept))
        return result


def table(
    columns: list[str], rows: list[list[object]], *, numbers: int = 0, spare: Collection[str] = ()
) -> _Fitting:
    """Return a table that fits the screen.

    Every cell is plain text, never markup, because names come from models.

    Args:
        columns: Titles.
        rows: Cells.
        numbers: The columns from here on are numbers (0: none is).
        spare: Columns that a narrow screen may go without.
    """
    return _Fitting(columns, [[harmless(plain(str(cell))) for cell in row] for row in rows], numbers, spare)


def facts(rows: Mapping[str, str]) -> Table:
    """Return names and values beside each other; a long value wraps."""
    result = Table.grid(padding=(0, 3, 0, 0))
    result.add_column(no_wrap=True)
    result.add_column(overflow="fold")
    for name, value in rows.items():
        result.add_row(Text(plain(name)), Text(harmless(plain(value))))
    return result


class StageProgress:
    """Tells of stages on stderr: a bar for each on a terminal, one line for each elsewhere."""

    def __init__(self) -> None:
        self._console = console(err=True)
        live = self._console.is_terminal and not self._console.is_dumb_terminal and not os.environ.get("CI")
        self._bars = _bars(self._console) if live else None
        self._stage: tuple[str, float] | None = None
        self.seconds: dict[str, float] = {}
        """Of each stage that is over."""

    def __enter__(self) -> StageProgress:
        if self._bars is not None:
            self._bars.start()
        return self

    def __call__(self, stage: str, detail: str) -> None:
        """Be told that ``stage`` begins (no detail) or goes on."""
        if not detail:
            self._finish()
            self._stage = (stage, time.perf_counter())
            if self._bars is not None:
                self._bars.add_task(plain(stage), total=None, detail="")
        if self._bars is not None:
            self._bars.update(self._bars.task_ids[-1], detail=plain(detail))

    def _finish(self, end: str = "") -> None:
        if self._stage is None:
            return
        name, start = self._stage
        self.seconds[name] = time.perf_counter() - start
        self._stage = None
        if self._bars is None:
            self._console.print(f"{name:<10} {self.seconds[name]:6.1f} s{end}")
            return
        current = self._bars.task_ids[-1]
        self._bars.stop_task(current)
        if not end:
            self._bars.update(current, total=1, completed=1, detail="")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish("" if kind is None else "  failed")
        if self._bars is not None:
            self._bars.live.transient = kind is None  # a summary follows; after an error the bars tell where
            self._bars.stop()


def _bars(out: Console) -> Progress:
    """Return a bar a stage: it moves while nobody knows how long, and is full at the end."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.elapsed:6.1f} s"),
        TextColumn("{task.fields[detail]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        console=out,
        expand=True,
    )
