"""``aotc``: finds the command and runs it; ``failures`` turns every error into its text and its exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import signal
import sys
from types import FrameType

import click

from aotc import __version__
from aotc.cli import failures
from aotc.errors import UsageError

_COMMANDS = {
    "build": "Compile a PyTorch model or an ONNX file and verify it against that.",
    "check": "Verify a bundle again: its golden inputs, or against its source.",
    "run": "Run a bundle on inputs from a file or on drawn ones.",
    "bench": "Time a bundle, side by side with eager and the plain export.",
    "inspect": "Show what a bundle holds and what was verified.",
    "diff": "Compare two bundles: signature, operators, weights, decisions, verdicts, sizes.",
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f"did you mean 'aotc {near[0]}'?" if near else "aotc --help"
            raise UsageError(f"there is no command '{args[0]}'", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="aotc")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Compile PyTorch models ahead of time into engines that were checked against eager.

    Exit codes: 0 done and verified; 1 a negative verdict; 2 usage, configuration or the source file; 3 this
    model is refused; 4 integrity or compatibility; 5 the environment lacks something, or the engine cannot be
    run here; 70 a bug of aotc; 74 I/O; 130 and 143 interrupted.
    """


def main() -> None:
    """Run the command line and exit."""
    _prepare_streams()
    signal.signal(signal.SIGTERM, _terminate)
    if "_AOTC_COMPLETE" in os.environ:  # the shell asks for completions
        cli.main(prog_name="aotc")
    sys.exit(run(sys.argv[1:]))


def run(args: list[str]) -> int:
    """Run the command line ``args`` and return the exit code.

    Not by ``cli.main``: that takes every EOFError for an interrupt and every broken pipe for a reader that
    went away.
    """
    context = None
    try:
        # --debug belongs to aotc itself; people write it after the command as well.
        ordered = sorted(args, key=lambda text: text != "--debug")
        with cli.make_context("aotc", ordered) as context:
            cli.invoke(context)
    except BaseException as error:  # noqa: BLE001 - the outermost frame: every exception has an exit code
        return failures.report(error, args, context)
    return 0


def _prepare_streams() -> None:
    """Let nothing that is printed fail for its characters, and no file become stdin, stdout or stderr."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file opened would get its number, and whatever is printed
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _terminate(number: int, _: FrameType | None) -> None:
    """Leave by an exception, so that staging folders are removed and children end."""
    raise failures.Terminated(128 + number)
