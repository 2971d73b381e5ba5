"""Files of torch's exporter before dynamo, of old opsets: their attention is raised, and they build."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from aotc import pipeline
from aotc.config import Options
from aotc.export.onnx_source import OnnxSource
from aotc.oracle import Oracle
from aotc.rewrite import Context, run_passes
from aotc.sources import import_source

pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporter, which is deprecated


class Attention(nn.Module):
    """One layer, whose scores and masks are spelled in the way that ``kind`` says."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.register_buffer("table", torch.tril(torch.ones(1, 1, 32, 32)))

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, 2, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / 8**0.5
        if self.kind == "table":
            scores = scores.masked_fill(self.table[:, :, :n, :n] == 0, float("-inf"))
        elif self.kind == "padding":
            scores = scores + (1.0 - keep[:, None, None, :].float()) * torch.finfo(torch.float32).min
        elif self.kind == "positions":
            places = torch.arange(n)
            scores = torch.where(places[None] <= places[:, None], scores, torch.tensor(-1e30))
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, 16)
        return self.norm(nn.functional.gelu(self.out(mixed)) + x)


def exported(kind: str, opset: int, folder: Path) -> OnnxSource:
    torch.manual_seed(0)
    path, axes = folder / f"{kind}_{opset}.onnx", {0: "batch", 1: "seq"}
    inputs = (torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.int64))
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            Attention(kind).eval(),
            inputs,
            str(path),
            opset_version=opset,
            input_names=["x", "keep"][: 2 if kind == "padding" else 1],
            dynamic_axes={"x": axes, "keep": axes} if kind == "padding" else {"x": axes},
            dynamo=False,
        )
    return OnnxSource(path, None, {"batch": (1, 2, 3), "seq": (1, 5, 20)})


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("kind", ["plain", "table", "padding", "positions"])
def test_raised(kind: str, opset: int, tmp_path: Path) -> None:
    oracle = Oracle(1)
    model = import_source(exported(kind, opset, tmp_path), oracle).model
    records = run_passes(model, pipeline.RAISE, Context(oracle))
    assert [refusal for record in records for refusal in record.refusals if refusal.operator] == []
    found = Counter(node.op_type for node in model.graph)
    assert (found["Attention"], found["LayerNormalization"], found["Gelu"]) == (1, 1, 1)
    (attention,) = (node for node in model.graph if node.op_type == "Attention")
    assert attention.attributes.get_int("is_causal", 0) == (kind in ("table", "positions"))


@pytest.mark.parametrize(("kind", "opset"), [("padding", 11), ("table", 17)])
def test_built(kind: str, opset: int, tmp_path: Path) -> None:
    options = Options(threads=1, expect_fused={"attention": 1})
    built = pipeline.build(exported(kind, opset, tmp_path), options, tmp_path / "bundle")
    assert built.verdict.passed
