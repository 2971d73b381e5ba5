"""Every error as its text and its exit code: the user's own exceptions are the user's, bugs are ours."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import click

from aotc import __version__
from aotc.errors import AotcError, InternalError, MissingError, StorageError, UsageError
from aotc.text import shown_path

_INTERRUPTED = 130


class Terminated(SystemExit):
    """SIGTERM arrived."""


def report(error: BaseException, args: Sequence[str], context: click.Context | None) -> int:
    """Tell the user of ``error``, in the way that ``args`` ask for, and return the exit code.

    Args:
        error: What ended the command.
        args: The command line.
        context: Of the command line, if it got that far; knows whether a JSON document was printed.
    """
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    if isinstance(error, OSError) and _failed_to_print(error):
        return _without_output(error)
    if "--debug" in args:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt | click.Abort | Terminated):
        with contextlib.suppress(OSError):
            click.echo("interrupted", err=True)
        _leave_for_ci(AotcError("interrupted", slug="interrupted"), args, context)
        return int(str(error.code)) if isinstance(error, Terminated) else _INTERRUPTED
    expected = as_expected(error)
    code = InternalError.exit_code if expected is None else expected.exit_code
    shown = expected or _bug(error)
    try:
        _print(shown, code, as_json="--json" in args, context=context)
    except OSError as unprinted:
        _without_output(unprinted)
    _leave_for_ci(shown, args, context)
    return code


def _leave_for_ci(error: AotcError, args: Sequence[str], context: click.Context | None) -> None:
    """Write what CI was promised; where that fails, the exit code stays that of ``error``."""
    from aotc.cli import ci
    from aotc.cli.output import say

    try:
        ci.failed(error, args, context)
    except OSError as unwritten:
        with contextlib.suppress(OSError):
            say(_storage(unwritten).render(), err=True)


def as_expected(error: BaseException) -> AotcError | None:
    """Return the error that the user is shown for ``error``; None if it is a bug of ours."""
    place = source_place(error)
    if isinstance(error, AotcError):
        error.where = error.where or place
        return error
    if isinstance(error, InternalError):
        return None
    if isinstance(error, click.ClickException):
        return _usage(error)
    if isinstance(error, MemoryError):
        return MissingError("there is not enough memory", where=place)
    if place is not None or isinstance(error, SystemExit | SyntaxError):
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        return UsageError(text, slug="source", where=place, hint="aotc --debug ... shows the traceback")
    return _storage(error) if isinstance(error, OSError) else None


def source_place(error: BaseException) -> str | None:
    """Return the innermost line of a source file that ``error`` passed through, if it did."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return f"{shown_path(error.filename)}:{error.lineno}"
    current: BaseException | None = error
    while current is not None:
        if place := _innermost(current.__traceback__):
            return place
        current = current.__cause__
    return None


def _innermost(trace: TracebackType | None) -> str | None:
    from aotc.export.source import is_of_source

    found = None
    while trace is not None:
        frame = trace.tb_frame
        if is_of_source(str(frame.f_globals.get("__name__"))):
            found = f"{shown_path(frame.f_code.co_filename)}:{trace.tb_lineno}, in {frame.f_code.co_name}"
        trace = trace.tb_next
    return found


def _usage(error: click.ClickException) -> UsageError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "aotc"
    return UsageError(error.format_message(), hint=f"{command} --help")


def _storage(error: OSError) -> StorageError:
    reason, file = error.strerror or str(error), os.fsdecode(error.filename or "")
    temporary = tempfile.gettempdir()
    if file.startswith(temporary):  # a name of ours that is gone by now
        return StorageError(f"cannot use the temporary folder: {reason}", hint="set TMPDIR to another folder")
    hint = f"free space, also in {temporary}" if error.errno == errno.ENOSPC else None
    return StorageError(f"{reason}: {file}".removesuffix(": "), hint=hint)


def _failed_to_print(error: OSError) -> bool:
    """Return whether ``error`` comes from writing to stdout or stderr."""
    trace, module = error.__traceback__, ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        trace = trace.tb_next
    return module.partition(".")[0] in ("click", "rich")


def _without_output(error: OSError) -> int:
    """Say why if anybody listens, and let the interpreter flush what is left into nothing."""
    if error.errno != errno.EPIPE:  # otherwise the reader went away, as `aotc inspect | head` does
        with contextlib.suppress(OSError):
            click.echo(StorageError(f"cannot print the result: {error.strerror}").render(), err=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    return StorageError.exit_code


def _bug(error: BaseException) -> AotcError:
    """Write a report file, which stays, and return what to say."""
    lines = [f"aotc {__version__}, Python {platform.python_version()}, {platform.platform()}\n"]
    lines += [f"{sys.argv}\n\n", *traceback.format_exception(error)]
    frames = traceback.extract_tb(error.__traceback__)
    return AotcError(
        str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}",
        slug="internal",
        where=f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None,
        hint=f"this is a bug of aotc, please report it with {_write(lines)}",
    )


def _write(lines: Sequence[str]) -> str:
    content = "".join(lines).encode("utf-8", errors="backslashreplace")
    try:
        with tempfile.NamedTemporaryFile(prefix="aotc-report-", suffix=".txt", delete=False) as file:
            file.write(content)
    except OSError:
        return "the traceback that aotc --debug ... shows"
    return file.name


def _print(error: AotcError, code: int, *, as_json: bool, context: click.Context | None) -> None:
    """Print the text on stderr, and with ``--json`` a document on stdout if it has none yet."""
    from aotc.cli.output import PRINTED, print_json, say
    from aotc.text import plain

    say(error.render(), err=True)
    if as_json and not (context and PRINTED in context.meta):
        from aotc.cli.document import ErrorDocument, Problem

        where, fix = (plain(text, keep="\n") if text else None for text in (error.where, error.hint))
        message = plain(error.message, keep="\n")
        problem = Problem(name=error.name, message=message, where=where, fix=fix, exit_code=code)
        print_json(ErrorDocument(error=problem).to_dict())
