"""Models whose compiled graph would answer differently somewhere: each is refused or fails the gate."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import aotc
from aotc.errors import InputError, RefusedError, UsageError, VerdictError

Forward = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class Module(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.on = False
        self.calls = 0
        self.function = forward

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return self.function(self, a)


def build(forward: Forward, out: Path, profile: tuple[int, int, int] | None, example: int = 4) -> None:
    torch.manual_seed(0)
    aotc.build(
        Module(forward).eval(),
        (torch.randn(example, 3),),
        dynamic_shapes=({0: Dim("n")},),
        profiles=[{"n": profile}] if profile else (),
        out=out,
        threads=1,
    )


def toggle(module: nn.Module, a: torch.Tensor) -> torch.Tensor:
    module.on = not module.on
    return a * 2 if module.on else a * 3


def count(module: nn.Module, a: torch.Tensor) -> torch.Tensor:
    module.calls += 1
    return a * min(int(module.calls), 50)


NOISY: dict[str, Forward] = {
    "python random": lambda m, a: a + random.random(),
    "numpy random": lambda m, a: a * torch.from_numpy(np.random.rand(3).astype("float32")),
    "a toggled attribute": toggle,
    "a counter": count,
    "float64 takes another branch": lambda m, a: a if a.dtype == torch.float32 else a * 1e30,
    "chaos": lambda m, a: torch.frac(torch.sin(a * 12.9898) * 43758.5453),
}


@pytest.mark.parametrize("case", NOISY)
def test_what_cannot_be_compared_is_refused(case: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        build(NOISY[case], tmp_path / "b", (1, 4, 8))
    assert caught.value.name in ("not-deterministic", "not-comparable", "module-state")
    assert not (tmp_path / "b").exists()


def parity_of_n(a: torch.Tensor) -> torch.Tensor:
    return a * 2 if a.shape[0] % 2 == 0 else a * 3


HIDDEN: dict[str, Forward] = {
    "a float32 minimum beside it": lambda m, a: parity_of_n(a).masked_fill(
        torch.tensor([False, True, False]), torch.finfo(a.dtype).min
    ),
    "a fill value beside it": lambda m, a: parity_of_n(a).masked_fill(
        torch.tensor([False, True, False]), -1e9
    ),
    "large values beside it": lambda m, a: torch.cat([a * 1e9, parity_of_n(a)], 1),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_a_fill_value_does_not_widen_the_bound(case: str, tmp_path: Path) -> None:
    with pytest.raises(VerdictError, match="differs on"):
        build(HIDDEN[case], tmp_path / "b", (1, 4, 9))


@pytest.mark.parametrize("fill", [torch.finfo(torch.float32).min, -1e9, float("-inf")])
def test_masked_outputs_build(fill: float, tmp_path: Path) -> None:
    build(
        lambda m, a: (a * 3).masked_fill(torch.tensor([False, True, False]), fill), tmp_path / "b", (1, 4, 9)
    )


BRANCHES: dict[str, tuple[Forward, tuple[int, int, int] | None, int]] = {
    "one size in six": (lambda m, a: a * 2 if a.shape[0] % 6 != 5 else a * 3, (1, 4, 64), 4),
    "even sizes": (lambda m, a: a * 2 if a.shape[0] % 2 == 1 else a * 3, (1, 5, 63), 5),
    "one size": (lambda m, a: a * 2 if a.shape[0] != 6 else a * 3, None, 4),
    "large sizes": (lambda m, a: a * 2 if a.shape[0] < 50 else a * 3, (1, 4, 60), 4),
}


@pytest.mark.parametrize("case", BRANCHES)
def test_the_other_branch_of_a_size_is_tried(case: str, tmp_path: Path) -> None:
    forward, profile, example = BRANCHES[case]
    with pytest.raises((VerdictError, RefusedError, aotc.AotcError), match=r"differs|fixes|up to|refuse"):
        build(forward, tmp_path / "b", profile, example)
    assert not (tmp_path / "b").exists()


def test_a_graph_that_onnxscript_cannot_simplify_is_refused(tmp_path: Path) -> None:
    with pytest.raises(aotc.AotcError) as caught:
        build(lambda m, a: a.chunk(3)[0], tmp_path / "b", (5, 8, 9), 8)
    assert caught.value.exit_code in (1, 3)


@pytest.mark.parametrize(
    ("forward", "profile"),
    [
        (lambda m, a: torch.cat([a, a[: 256 - a.shape[0] % 256]]) if a.shape[0] % 256 else a, (1, 128, 1000)),
        (lambda m, a: a * 2 if a.shape[0] == 1000 else a + 1, (1, 4, 4096)),
        (lambda m, a: a * 2 if a.shape[0] / 5 == 2.0 else a + 1, (1, 4, 64)),
        (lambda m, a: a * 2 if int(a.shape[0] * 0.3) == 5 else a + 1, (1, 4, 64)),
        (lambda m, a: a * 2 if a.shape[0] == 1000 else a + 1, None),
        (lambda m, a: a * 2 if min(a.shape[0], 50) == 50 else a + 1, None),
    ],
)
def test_a_branch_on_sizes_far_from_the_corners(
    tmp_path: Path, forward: Forward, profile: tuple[int, int, int] | None
) -> None:
    with pytest.raises((RefusedError, VerdictError)):
        build(forward, tmp_path / "b", profile)


def test_where_a_branch_was_out_of_reach_the_size_is_refused(tmp_path: Path) -> None:
    build(lambda m, a: a * 2 if a.shape[0] == 100_000 else a + 1, tmp_path / "b", None)
    with aotc.load(tmp_path / "b") as engine:
        assert engine.run(np.ones((7, 3), np.float32))[0, 0] == 2
        with pytest.raises(InputError, match="100000"):
            engine.run(np.ones((100_000, 3), np.float32))


def test_a_profile_of_multiples(tmp_path: Path) -> None:
    """As image sizes that must be divisible by the patch size: the profile stands for what eager takes."""

    def forward(m: nn.Module, a: torch.Tensor) -> torch.Tensor:
        assert a.shape[0] % 4 == 0, "not divisible by 4"
        return a.reshape(-1, 4, 3).sum(1)

    build(forward, tmp_path / "b", (4, 8, 32), 8)
    with aotc.load(tmp_path / "b") as engine:
        assert engine.run(np.ones((12, 3), np.float32)).tolist() == [[4.0] * 3] * 3
        with pytest.raises(InputError, match=r"Eq\(Mod\(\w+, 4\), 0\)"):
            engine.run(np.ones((10, 3), np.float32))
    with pytest.raises(UsageError, match="eager refuses inputs that the source or a profile allows"):
        build(forward, tmp_path / "c", (4, 8, 30), 8)
