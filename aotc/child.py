"""Runs a function in a child process: native code may crash there, and its memory goes back when it ends.

A plain ``python -m aotc.child module:function`` with JSON in and JSON lines out. Not multiprocessing: that
would import the caller's main module again, which runs a user's script twice.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import IO, Any

from aotc import errors
from aotc.errors import AotcError, InternalError, RefusedError

Progress = Callable[[str], None]


def run_in_child(function: str, payload: dict[str, Any], on_progress: Progress = lambda _: None) -> Any:
    """Call ``function`` (``module:name``) with ``payload`` and a progress callback in a child process.

    What the child prints is kept for the traceback of an error: native code that crashes prints its insides.

    Returns:
        What the function returns; payload and result are JSON values.

    Raises:
        AotcError: The one that the function raised.
        RefusedError: The child crashed; says by which signal.
        InternalError: The function raised anything else.
    """
    with tempfile.TemporaryFile() as printed:
        try:
            return _run(function, payload, on_progress, printed)
        except (RefusedError, InternalError) as error:
            printed.seek(0)
            if text := printed.read().decode(errors="backslashreplace").strip():
                error.add_note(f"the child process printed:\n{text}")  # a traceback shows it
            raise


def _run(function: str, payload: dict[str, Any], on_progress: Progress, printed: IO[bytes]) -> Any:
    """Do what ``run_in_child`` does; what the child prints goes to ``printed``."""
    process = subprocess.Popen(
        # -P: a file in the working directory must not stand in for a module.
        [sys.executable, "-P", "-m", "aotc.child", function],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=printed,
        process_group=0,  # Ctrl-C is for the parent, which ends the child
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    last: dict[str, Any] = {}
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            json.dump(payload, stdin)  # a child that died at once is reported below
        for line in process.stdout:
            last = json.loads(line)
            if "progress" in last:
                on_progress(last["progress"])
        code = process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return _result(function, code, last)


def _result(function: str, code: int, last: dict[str, Any]) -> Any:
    if "result" in last:
        return last["result"]
    if "error" in last:
        kind: type[AotcError] = getattr(errors, last["error"].pop("class"))
        raise kind(**last["error"])
    if "bug" in last:
        error = InternalError(
            f"the child process of {function} failed: {last['bug'].strip().splitlines()[-1]}"
        )
        error.add_note(last["bug"])
        raise error
    if code < 0:
        raise RefusedError(
            f"native code crashed with {signal.Signals(-code).name} while this model was processed",
            slug="native-crash",
            where=last.get("progress"),
            hint="aotc --debug ... shows what it printed",
        )
    raise InternalError(f"the child process of {function} ended with code {code} and no result")


def _main(function: str) -> None:
    """Run in the child: the payload on stdin, one JSON object a line on the real stdout."""
    payload = json.load(sys.stdin)
    # Whatever prints, native code too, must not end up among the results.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def send(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    module, _, name = function.partition(":")
    try:
        result = getattr(importlib.import_module(module), name)(
            payload, lambda text: send({"progress": text})
        )
    except AotcError as error:
        fields = {"message": error.message, "slug": error.name, "where": error.where, "hint": error.hint}
        known = next(kind for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        send({"error": {"class": known.__name__, **fields}})
    except Exception:  # noqa: BLE001 - the parent reports it as a bug, with this traceback
        send({"bug": traceback.format_exc()})
    else:
        send({"result": result})


if __name__ == "__main__":
    _main(sys.argv[1])
