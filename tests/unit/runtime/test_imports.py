"""What a serving machine needs: onnxruntime when it loads, and no compiler at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is not on a serving machine")

sys.meta_path.insert(0, Blocked())
"""

RUN = """
import numpy as np
import aotc.runtime
engine = aotc.runtime.load(sys.argv[1])
out = engine.run({"ids": np.array([[1, 2]])}, bias=np.float32(0)).out[0]
assert out.shape == (1, 2, 64)
assert not {"torch", "onnx", "onnx_ir", "onnxscript"} & set(sys.modules)
"""


def run(code: str, *args: str) -> None:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_loads_and_runs_without_the_compiler(bundle: Path) -> None:
    run("BLOCKED = {'torch', 'onnx', 'onnx_ir', 'onnxscript'}" + BLOCK + RUN, str(bundle))


@pytest.mark.parametrize("module", ["aotc", "aotc.bundle", "aotc.runtime"])
def test_importing_needs_no_runtime(module: str) -> None:
    run(f"BLOCKED = {{'torch', 'onnx', 'onnx_ir', 'onnxruntime', 'tensorrt'}}{BLOCK}\nimport {module}")
