"""What a user writes: the engine must compute what the module computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from shop import ranker
from torch import nn

import aotc

SOURCE = Path(ranker.__file__)


@pytest.mark.aotc_target("ort-cpu")
def test_the_engine_equals_the_module(aotc_parity) -> None:
    result = aotc_parity(
        ranker.model(), ranker.inputs(), dynamic_shapes=ranker.dynamic_shapes, profiles=ranker.profiles
    )
    assert result.verdict.passed
    with aotc.load(result.directory) as engine:
        assert engine.run(**ranker.inputs())["scores"].shape == (2, 3)


def test_the_source_file_says_all_itself(aotc_parity) -> None:
    assert aotc_parity(SOURCE).description.signature.dims == ("batch", "seq")


def test_a_bound_that_nothing_holds(aotc_parity) -> None:
    aotc_parity(SOURCE, tolerance={"scores": {"atol": 0.0}})


def test_a_model_that_is_refused(aotc_parity) -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x

    aotc_parity(Branches().eval(), (torch.ones(2),))
