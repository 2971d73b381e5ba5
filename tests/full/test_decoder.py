"""What size costs: a decoder of 945 MB is built, within its memory, and loads."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]


def test_a_build_stays_within_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peak anonymous memory, child processes included: under 2.2 times the weights plus 0.4 GB."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    run_sampled = importlib.import_module("tree_memory").run_sampled
    aotc = str(Path(sys.executable).with_name("aotc"))
    command = [aotc, "build", str(ROOT / "benchmarks" / "decoder.py"), "-o", "decoder", "--json"]
    out, peak, _ = run_sampled(command, tmp_path, dict(os.environ))
    assert json.loads(out)["passed"]
    weights = (tmp_path / "decoder" / "weights").stat().st_size
    assert weights > 900e6
    assert peak < 2.2 * weights + 0.4e9, f"{peak / weights:.2f} times the weights"
