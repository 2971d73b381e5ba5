"""``--junit`` and ``--github``: what a verdict or an error leaves for CI, alike for every command."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.errors import AotcError

if TYPE_CHECKING:
    from aotc.parity.verdict import AnyVerdict

_JUNIT, _GITHUB = "aotc.junit", "aotc.github"
"""Keys in click's ``meta``, which the failure of a command can still read when its context is gone."""


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        context.meta[f"aotc.{parameter.name}"] = value


# Eager: they are known when another option turns out to be wrong.
junit_option = click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_remember,
    help="Write the verdict or the error to this file as JUnit XML.",
)
github_option = click.option(
    "--github",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember,
    help="Annotate for GitHub Actions, and add to the summary of the step.",
)


def ci_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that gives a verdict."""
    return junit_option(github_option(command))


def passed(verdict: AnyVerdict, notes: Sequence[str]) -> None:
    """Leave a positive verdict for CI, if the running command was told to."""
    context = click.get_current_context(silent=True)
    if context is not None:
        command = " ".join(["aotc", str(context.info_name), *_given(context)])
        _leave(context.meta, command, (), verdict, None, notes)


def _given(context: click.Context) -> Iterator[str]:
    """Yield the arguments of a command, without its options."""
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if isinstance(parameter, click.Argument) and value is not None:
            yield from map(str, value if isinstance(value, tuple) else [value])


def failed(error: AotcError, arguments: Sequence[str], context: click.Context | None) -> None:
    """Leave an error for CI, with its verdict if it has one.

    Args:
        error: What ended the command.
        arguments: The command line; says where the source file lies.
        context: Of the command line, if it got that far.
    """
    if context is not None:
        given = itertools.takewhile(lambda text: not text.startswith("-"), arguments)
        command = " ".join(["aotc", *given])
        _leave(context.meta, command, arguments, getattr(error, "verdict", None), error, ())


def _leave(
    wanted: dict[str, Any],
    command: str,
    arguments: Sequence[str],
    verdict: AnyVerdict | None,
    error: AotcError | None,
    notes: Sequence[str],
) -> None:
    # Taken out, so that a file which cannot be written is not tried again when that is reported.
    if wanted.pop(_GITHUB, False):
        _annotate(command, arguments, error, notes)
        _summarise(command, verdict, error, notes)
    if (path := wanted.pop(_JUNIT, None)) is not None:
        from aotc.report.junit import write_junit

        write_junit(path, command, verdict, error)


def _annotate(command: str, arguments: Sequence[str], error: AotcError | None, notes: Sequence[str]) -> None:
    """Write annotations to stderr: GitHub reads both streams, and stdout is the result."""
    from aotc.report import github

    lines = [github.annotation("warning", command, note) for note in notes]
    if error is not None:
        place = github.place_in(error.where)
        if place is not None:
            workspace = Path(os.environ.get("GITHUB_WORKSPACE", ".")).resolve()
            place = github.in_repository(place[0], arguments, workspace), place[1]
        lines.append(github.annotation("error", f"{command}: {error.name}", error.render(), place))
    for line in lines:
        click.echo(line, err=True)


def _summarise(
    command: str, verdict: AnyVerdict | None, error: AotcError | None, notes: Sequence[str]
) -> None:
    from aotc.report import github

    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(github.summary(command, verdict, notes, error))
