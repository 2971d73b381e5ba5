"""The real command line in a subprocess, with packages hidden if a test wants a bare machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

COMPILER = ("torch", "onnx", "onnx_ir", "onnxscript")
BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Blocked())
"""
MAIN = "from aotc.cli.main import main; main()"
_ADDRESS = re.compile(r"0x[0-9a-f]{6}")


def argv(*args: str | Path, hidden: Sequence[str] = ()) -> list[str]:
    """Return the command: the installed script, or with hidden packages its entry point behind a blocker."""
    if not hidden:
        return [str(Path(sys.executable).with_name("aotc")), *map(str, args)]
    return [sys.executable, "-c", BLOCK.format(blocked=tuple(hidden)) + MAIN, *map(str, args)]


def aotc(
    *args: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    hidden: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run ``aotc ARGS`` and return exit code, stdout and stderr; ``env`` is added to the environment."""
    done = subprocess.run(
        argv(*args, hidden=hidden),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def error_of(stderr: str) -> str:
    """Return the error on stderr without the lines about stages; it names no address."""
    at = stderr.find("error[")
    assert at >= 0, stderr
    text = stderr[at:].rstrip("\n")
    assert not _ADDRESS.search(text), text
    return text
