"""``aotc``: finds the command, and turns every error into its text and its exit code."""

from __future__ import annotations

import importlib
import os
import platform
import signal
import sys
import tempfile
import traceback
from types import FrameType
from typing import Any

import click

from aotc import __version__
from aotc.errors import AotcError, InternalError, StorageError

_COMMANDS = {
    "build": "Compile a PyTorch model and verify it against eager.",
    "check": "Verify a bundle again: its golden inputs, or eager.",
    "run": "Run a bundle on inputs from a file or on drawn ones.",
    "bench": "Time a bundle, side by side with eager and the plain export.",
    "inspect": "Show what a bundle holds and what was verified.",
    "passes": "List the passes: what they rewrite, require and refuse.",
    "doctor": "Show what this machine has and what aotc can do with it.",
}


class _Lazy(click.Group):
    """Imports a command's module when it is called, so that ``aotc --help`` stays light."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"aotc.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aotc")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Compile PyTorch models ahead of time into engines that were checked against eager.

    Exit codes: 0 done and verified; 1 a negative verdict; 2 usage; 3 this model is refused; 4 integrity or
    compatibility; 5 the environment lacks something; 70 a bug of aotc; 74 I/O.
    """
    ctx.obj = debug


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _terminate)
    debug = "--debug" in sys.argv[1:]
    try:
        sys.exit(cli.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away: there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except AotcError as error:
        _show(error, error.render(), debug)
        sys.exit(error.exit_code)
    except OSError as error:
        wrapped = StorageError(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        _show(error, wrapped.render(), debug)
        sys.exit(wrapped.exit_code)
    except Exception as error:  # noqa: BLE001 - everything else is a bug of ours or of the user's own code
        sys.exit(_report_bug(error))


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that staging folders are removed and children end."""
    sys.exit(128 + number)


def _show(error: BaseException, text: str, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    click.echo(_printable(text), err=True)


def _printable(text: str) -> str:
    """Drop control characters: names from models must not steer the terminal."""
    return "".join(c for c in text if c == "\n" or c.isprintable())


def _report_bug(error: Exception) -> int:
    """Write a report file and say where; user code that raised is named as such."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = bool(frames) and "aotc_source_" in str(_module_of(error))
    with tempfile.NamedTemporaryFile(
        "w", prefix="aotc-report-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"aotc {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        file.write(f"{sys.argv}\n\n")
        file.writelines(traceback.format_exception(error))
    if inside:
        click.echo(
            _printable(f"error[source]: the source file raised {type(error).__name__}: {error}"), err=True
        )
        click.echo(f"  where: {frames[-1].filename}:{frames[-1].lineno}\n  report: {file.name}", err=True)
        return 2
    click.echo(_printable(f"internal error: {type(error).__name__}: {error}"), err=True)
    click.echo(f"  this is a bug of aotc; please report it with {file.name}", err=True)
    return InternalError.exit_code


def _module_of(error: Exception) -> Any:
    """Return the module of the innermost frame."""
    trace = error.__traceback__
    name = None
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__")
        trace = trace.tb_next
    return name
