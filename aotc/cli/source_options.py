"""The source on the command line, and the options about how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

Sizes = tuple[int, int, int]
_DIM = re.compile(r"([^\W\d]\w*)=(\d+):(\d+):(\d+)", re.ASCII)


def parse_dims(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, Sizes]:
    """Return (min, opt, max) by dim name.

    Raises:
        click.BadParameter: Not of that form, sizes out of order, or a dim twice.
    """
    found: dict[str, Sizes] = {}
    for value in values:
        if (match := _DIM.fullmatch(value)) is None:
            raise click.BadParameter(f"'{value}' is not like seq=1:128:512")
        low, opt, high = map(int, match.groups()[1:])
        if not low <= opt <= high:
            raise click.BadParameter(f"'{value}' is not in the order MIN:OPT:MAX")
        if match[1] in found:
            raise click.BadParameter(f"the dim '{match[1]}' is given twice")
        found[match[1]] = (low, opt, high)
    return found


class SourcePath(click.Path):
    """A path, also ``model.py:encoder``; or ``package.module:factory``, which is none that must exist."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it as a ``Path``."""
        from aotc.export.factory import is_factory
        from aotc.export.source import split_part

        file, part = split_part(Path(value))
        if part is not None or not is_factory(str(value)):
            super().convert(file, param, ctx)
        return Path(value)


dim_option = click.option(
    "--dim",
    "sizes",
    multiple=True,
    callback=parse_dims,
    metavar="NAME=MIN:OPT:MAX",
    help="Sizes of a dim of a source without profiles; may be given several times.",
)
_remote_code = click.option(
    "--trust-remote-code",
    is_flag=True,
    default=None,
    help="Run the Python code that a Hugging Face folder brings.",
)
_source = click.option(
    "--trust-source",
    is_flag=True,
    default=None,
    help="Load a .pt2 file, which can execute code that is hidden in it.",
)


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which the user vouches for a source."""
    return _remote_code(_source(command))
