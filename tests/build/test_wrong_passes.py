"""A wrong pass in the pipeline: the build exits 1, publishes nothing and saves the inputs that show it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from mutate import KINDS
from mutate_edit import Subject

from aotc import pipeline
from aotc.cli import main
from aotc.parity import validate
from aotc.rewrite import Context, Pass, PassResult

SOURCE = Path(__file__).resolve().parents[1] / "cases" / "034_gru_reset_gate.py"


@dataclasses.dataclass(frozen=True)
class Wrong(Pass):
    kind: str = ""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        subject = Subject(model, {}, np.random.default_rng(0))
        where, edit = next(iter(site for find in KINDS[self.kind] for site in find(subject)))
        edit()
        return PassResult((where,), ())


@pytest.mark.parametrize("kind", ["weight times 1.01", "one element of a weight", "switch", "gates swapped"])
def test_a_wrong_pass_publishes_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(validate, "region_validator", lambda *_: None)  # which would put it back
    monkeypatch.setitem(pipeline.LOWER, "ort-cpu", (*pipeline.LOWER["ort-cpu"], Wrong(kind)))
    out = tmp_path / "bundle"
    assert main.run(["build", str(SOURCE), "-o", str(out), "--threads", "1"]) == 1
    assert "differs on" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.failed.html", "bundle.failed.npz"]


@pytest.mark.parametrize("kind", ["weight times 1.01", "switch", "gates swapped"])
def test_a_wrong_pass_is_put_back_region_by_region(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pipeline.LOWER, "ort-cpu", (*pipeline.LOWER["ort-cpu"], Wrong(kind)))
    out = tmp_path / "bundle"
    assert main.run(["build", str(SOURCE), "-o", str(out), "--threads", "1"]) == 0
    assert "the new form of " in (out / "bundle.json").read_text(encoding="utf-8")
