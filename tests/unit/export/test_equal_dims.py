"""Anonymous dims that were equal in every input set are one dim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tiny_models import source
from torch import nn
from torch.export import Dim

from aotc.errors import InputError
from aotc.export.equal_dims import find_equal_dims, merge_bounds
from aotc.export.importer import Imported, import_module
from aotc.signature import Bounds

SHAPES: dict[str, tuple[int | str, ...]] = {"q": (2, "q_1"), "k": (2, "k_1"), "v": (2, "v_1")}
ALL = frozenset({"q_1", "k_1", "v_1"})


def observed(*sizes: tuple[int, int, int]) -> list[dict[str, Any]]:
    return [dict(zip("qkv", (np.zeros((2, n)) for n in each), strict=True)) for each in sizes]


@pytest.mark.parametrize(
    ("sizes", "anonymous", "equal"),
    [
        ([(3, 5, 5), (2, 9, 9)], ALL, {"v_1": "k_1"}),
        ([(5, 5, 5), (9, 9, 9)], ALL, {"k_1": "q_1", "v_1": "q_1"}),
        ([(3, 5, 5), (3, 9, 9), (3, 4, 5)], ALL, {}),
        ([(3, 5, 5)], ALL, {}),
        ([(3, 5, 5), (2, 5, 5)], ALL, {}),
        ([(3, 5, 5), (2, 9, 9)], ALL - {"v_1"}, {}),
        ([(3, 5, 5), (2, 9, 9)], ALL - {"k_1"}, {}),
        ([(5, 5, 5), (9, 9, 9)], ALL - {"q_1"}, {"v_1": "k_1"}),
    ],
)
def test_which_are_equal(
    sizes: list[tuple[int, int, int]], anonymous: frozenset[str], equal: dict[str, str]
) -> None:
    assert find_equal_dims(SHAPES, observed(*sizes), anonymous) == equal


def test_input_sets_of_another_structure_prove_nothing() -> None:
    sets = [*observed((3, 5, 5), (2, 9, 9)), {"q": np.zeros((2, 3)), "k": np.zeros((2, 5))}]
    assert find_equal_dims(SHAPES, sets, ALL) == {}
    flat = [*observed((3, 5, 5)), {"q": np.zeros(3), "k": np.zeros(5), "v": np.zeros(5)}]
    assert find_equal_dims(SHAPES, flat, ALL) == {}


def test_bounds_are_joined() -> None:
    bounds = {"v_1": Bounds(min=2, max=9), "k_1": Bounds(max=5), "q_1": Bounds(min=1)}
    assert merge_bounds(bounds, {"v_1": "k_1"}) == {"k_1": Bounds(min=2, max=5), "q_1": Bounds(min=1)}


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)


def qkv(*lengths: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(1, 2, length, 4) for length in lengths)


def imported(shapes: Any, **fields: Any) -> Imported:
    module = Attention().eval()
    return import_module(module, source(module, qkv(3, 5, 5), shapes, more_inputs=[qkv(2, 7, 7)], **fields))


def test_the_signature_and_the_graph_have_one_dim_and_a_note_says_so() -> None:
    dynamic = {2: Dim.DYNAMIC}
    found = imported((dynamic, dynamic, dynamic))
    assert [spec.shape[2] for spec in found.signature.inputs] == ["q_2", "k_2", "k_2"]
    assert [str(value.shape[2]) for value in found.model.graph.inputs] == ["q_2", "k_2", "k_2"]
    assert found.notes[0] == (
        "the dims 'k_2' and 'v_2' are equal in every given input and count as one; "
        "name both in dynamic_shapes if they may differ"
    )
    found.signature.check(dict(zip("qkv", (t.numpy() for t in qkv(1, 4, 4)), strict=True)))
    with pytest.raises(InputError, match="axis 2 of input 'v' must be 'k_2' = 5, not 4"):
        found.signature.check(dict(zip("qkv", (t.numpy() for t in qkv(3, 5, 4)), strict=True)))


def test_named_dims_stay_apart() -> None:
    found = imported(({2: "l"}, {2: "s"}, {2: "t"}))
    assert [spec.shape[2] for spec in found.signature.inputs] == ["l", "s", "t"]
    assert found.notes == tuple(
        f"'{name}' has no profile: every size is accepted, few are verified (aotc inspect lists them)"
        for name in "lst"
    )


def test_a_dim_of_a_profile_counts_as_named() -> None:
    dynamic = {2: Dim.DYNAMIC}
    found = imported((dynamic, dynamic, dynamic), profiles=[{"v_2": (1, 5, 9)}])
    assert [spec.shape[2] for spec in found.signature.inputs] == ["q_2", "k_2", "v_2"]
