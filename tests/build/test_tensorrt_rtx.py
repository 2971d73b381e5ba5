"""Builds for tensorrt-rtx: level graph, nothing without --accept graph, and the samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commandline import aotc as run
from parts_model import PARTS
from rtx import needs_rtx
from torch import nn
from torch.export import Dim

import aotc
from aotc import parts
from aotc.bundle import open_bundle, read_checked
from aotc.config import Options
from aotc.errors import CompatibilityError, RefusedError, UnexecutedError, UsageError
from aotc.export.source import PartsSource, load_source
from aotc.parity.failure import ParityError

pytestmark = needs_rtx
ROOT = Path(__file__).resolve().parents[2]


class Encoder(nn.Module):
    """A table, attention under a padding mask, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.mix, self.norm = nn.Embedding(16, 8), nn.Linear(8, 16), nn.LayerNorm(8)

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)[:, None]
        k, v = self.mix(x).chunk(2, -1)
        mixed = nn.functional.scaled_dot_product_attention(x, k, v, attn_mask=keep[:, None, None])
        return self.norm(mixed[:, 0])


def build(out: Path, module: nn.Module | None = None, **options: Any) -> Any:
    batch, seq = Dim("batch"), Dim("seq")
    given: dict[str, Any] = {
        "dynamic_shapes": ({0: batch, 1: seq}, {0: batch, 1: seq}),
        "profiles": [{"batch": (1, 2, 4), "seq": (1, 5, 9)}],
        "target": "tensorrt-rtx:sm_86,sm_89",
        "accept": "graph",
        "threads": 1,
    }
    ids = torch.arange(10).reshape(2, 5)
    return aotc.build(module or Encoder().eval(), (ids, ids != 4), out=out, **{**given, **options})


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_bundle_of_level_graph(precision: str, tmp_path: Path) -> None:
    out = tmp_path / "m"
    result = build(out, precision=precision)
    description = result.description
    assert (description.level, result.verdict.level) == ("graph", "graph")
    assert description.target == "tensorrt-rtx:sm_86,sm_89"
    graphs = ["model.onnx", *(["model.rounded.onnx"] if precision == "fp16" else [])]
    assert [engine.engine for engine in result.verdict.engines] == graphs
    engine = description.engines[-1]
    assert (engine.file, engine.kind, engine.requires.architectures) == (
        "model.engine",
        "tensorrt-rtx",
        ("sm_86", "sm_89"),
    )
    assert {f.tolerance for e in result.verdict.engines for c in e.cases for f in c.outputs} == {
        "rms" if precision == "fp16" else "derived"
    }
    with pytest.raises(CompatibilityError, match="the engine of this bundle was never run"):
        aotc.load(out)
    assert aotc.check(out).level == "graph"
    checked = read_checked(out)
    assert checked is not None
    assert (checked.verdict, checked.level) == ("pass", "graph")
    with pytest.raises(CompatibilityError, match="never run"):  # a check of the graph vouches for nothing
        aotc.load(out)
    with pytest.raises(CompatibilityError, match="the bundle is for tensorrt-rtx:sm_86,sm_89; this"):
        aotc.load(out, allow_unexecuted=True)


def test_the_verified_bytes_are_an_engine_to_tensorrt(tmp_path: Path) -> None:
    import tensorrt_rtx as trt

    build(tmp_path / "m")
    with open_bundle(tmp_path / "m") as bundle:
        header = bytes(bundle.buffer("model.engine"))[:64]
    runtime = trt.Runtime(trt.Logger(trt.Logger.Severity.INTERNAL_ERROR))
    malformed = 32
    assert runtime.get_engine_validity(np.frombuffer(header, np.uint8))[1] & malformed == 0
    assert runtime.get_engine_validity(np.zeros(64, np.uint8))[1] & malformed


def test_nothing_is_published_unless_it_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(UnexecutedError, match="only its graph was verified against eager") as caught:
        build(tmp_path / "m", accept=None)
    assert caught.value.exit_code == 5
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_differs_from_eager_is_not_accepted(tmp_path: Path) -> None:
    class Lying(Encoder):
        def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            result = super().forward(ids, keep)
            return result * 1.5 if torch.compiler.is_exporting() else result

    with pytest.raises(ParityError):
        build(tmp_path / "m", Lying().eval(), precision="fp16")
    assert not (tmp_path / "m").exists()


def test_the_gate_sees_what_float16_rounds_away(tmp_path: Path) -> None:
    class Cancelling(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 2000.0) - 2000.0

    options: dict[str, Any] = {"target": "tensorrt-rtx:sm_86", "accept": "graph", "validate": "off"}
    with pytest.raises(ParityError, match=r"relative RMS error .* \(model.rounded.onnx\)"):
        aotc.build(
            Cancelling().eval(), (torch.rand(64),), out=tmp_path / "m", precision="fp16", threads=1, **options
        )


def test_a_dim_without_a_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the dim 'seq' has no profile"):
        build(tmp_path / "m", profiles=[{"batch": (1, 2, 4)}])


def test_float64_is_refused_with_its_line(tmp_path: Path) -> None:
    class Wide(Encoder):
        def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return super().forward(ids, keep).double().cumsum(1).float()

    with pytest.raises(RefusedError, match="float64") as caught:
        build(tmp_path / "m", Wide().eval())
    assert caught.value.where is not None
    assert "test_tensorrt_rtx.py:" in caught.value.where


def test_a_model_in_parts(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PARTS, encoding="utf-8")
    source = load_source(tmp_path / "model.py")
    assert isinstance(source, PartsSource)
    options = Options(target="tensorrt-rtx:sm_86", accept="graph", threads=1)
    result = parts.build(source, options, tmp_path / "m")
    assert result.verdict.level == "graph"
    page = (tmp_path / "m/report.html").read_text(encoding="utf-8")
    assert "2 parts, all verified at level graph: the engines were never run" in page
    assert aotc.check(tmp_path / "m").level == "graph"
    with pytest.raises(CompatibilityError, match="never run"):
        aotc.load(tmp_path / "m")


def test_equal_builds_of_one_dynamic_dim_have_one_digest(tmp_path: Path) -> None:
    shapes = {"dynamic_shapes": ({0: Dim("batch")}, {0: Dim("batch")}), "profiles": [{"batch": (1, 2, 4)}]}
    first, second = (build(tmp_path / name, **shapes).description.digest for name in "ab")
    assert first == second


@pytest.mark.full
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("sample", ["digits", "minilm", "tiny-lm"])
def test_samples(sample: str, precision: str, tmp_path: Path) -> None:
    options = ["--precision", precision, "--accept", "graph", "--json", "-o", tmp_path / "m"]
    done = run("build", f"samples/{sample}/model.py", "--target", "tensorrt-rtx:sm_86", *options, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"]["level"] == "graph"
    assert document["passed"]
    with open_bundle(tmp_path / "m") as bundle:
        assert len(bundle.buffer("model.engine")) > 100_000
