"""Builds in fp16: what the cast keeps in float32, that its bound is the one of contract 1, and what fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotc
from aotc.errors import VerdictError

LOWEST = torch.finfo(torch.float32).min


class Masked(nn.Module):
    """Attention by hand under an additive mask; a row may have every entry masked."""

    def __init__(self, low: float) -> None:
        super().__init__()
        self.low, self.value = low, nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        mask = (1.0 - keep.to(x.dtype))[:, None, :] * self.low
        scores = x @ x.transpose(1, 2) / 8**0.5 + mask
        return scores.softmax(-1) @ self.value(x)


class Cancelling(nn.Module):
    """What is left of the input is lost in float16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 2000.0) - 2000.0


def masked(out: Path, low: float, **options: Any) -> aotc.BuildResult:  # type: ignore[name-defined]
    torch.manual_seed(0)
    seq = Dim("seq")
    keep = torch.tensor([[True, True, False], [False, False, False]])
    return aotc.build(
        Masked(low).eval(),
        (torch.randn(2, 3, 8), keep),
        dynamic_shapes=({1: seq}, {1: seq}),
        profiles=[{"seq": (1, 3, 9)}],
        out=out,
        threads=1,
        precision="fp16",
        **options,
    )


@pytest.mark.parametrize("low", [LOWEST, pytest.param(-1e9, marks=pytest.mark.full), -1e4])
def test_rows_that_are_all_masked_keep_their_meaning(low: float, tmp_path: Path) -> None:
    result = masked(tmp_path / "m", low)
    figures = [f for e in result.verdict.engines for c in e.cases for f in c.outputs]
    assert figures
    assert {(f.tolerance, f.rtol, f.bound) for f in figures} == {("rms", 0.01, "0.01 rel RMS")}
    assert all(f.passed for f in figures)
    assert result.description.options["precision"] == "fp16"
    cast = next(entry for entry in result.description.passes if entry.name == "cast-to-fp16")
    assert any("MatMul in float16" in change for change in cast.changes)
    kept = [refusal.reason for refusal in cast.refusals]
    limit = "float16 ends at 65504" if low < -65504 else "float16 counts to 2048"
    assert any(limit in reason for reason in kept)
    assert aotc.check(tmp_path / "m").passed


def test_a_graph_that_float16_cannot_hold_is_refused_by_the_budget(tmp_path: Path) -> None:
    with pytest.raises(VerdictError, match="cast-to-fp16 changes the output 'output' too much on") as caught:
        aotc.build(Cancelling().eval(), (torch.rand(4),), out=tmp_path / "m", threads=1, precision="fp16")
    assert "relative RMS error" in caught.value.message
    assert not (tmp_path / "m").exists()


def test_each_pass_is_compared_as_well(tmp_path: Path) -> None:
    assert masked(tmp_path / "m", -1e4, validate="each").verdict.passed


def test_a_tolerance_of_the_user_counts_instead(tmp_path: Path) -> None:
    result = masked(tmp_path / "m", -1e4, tolerance={"output": {"atol": 2.0}})
    assert {f.tolerance for e in result.verdict.engines for c in e.cases for f in c.outputs} == {"configured"}
