"""``aotc --help`` is light and quick; every command has a help page."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from commandline import aotc, argv

from aotc.cli.main import cli

HEAVY = {"torch", "onnxruntime", "onnx", "onnx_ir", "onnxscript", "numpy", "pydantic", "tensorrt"}
HELP = """
import sys
sys.argv = ["aotc", "--help"]
from aotc.cli.main import main
try:
    main()
except SystemExit as done:
    assert done.code == 0
loaded = set(sys.modules)
print(*sorted({heavy!r} & loaded), file=sys.stderr)
"""


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELP.format(heavy=HEAVY)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert "Usage: aotc" in done.stdout


def test_help_answers_in_less_than_half_a_second() -> None:
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(argv("--help"), check=True, capture_output=True)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.5


@pytest.mark.parametrize("command", cli.list_commands(None))  # type: ignore[arg-type]
def test_every_command_has_a_help_page(command: str, tmp_path: Path) -> None:
    done = aotc(command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: aotc {command} ")
    assert "--json" in done.stdout
