"""Ranges of index inputs: found in the graph, confirmed by eager, enforced where eager raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import Call, source
from torch import nn

from aotc.errors import InputError
from aotc.export.importer import Imported, import_module, with_index_ranges
from aotc.parity.reference import Eager

IDS = torch.tensor([[1, 2, 3], [0, 4, 2]])
FLAT = torch.tensor([2, 0, 1])
DATA = torch.randn(3, 4)


class Ids(nn.Module):
    def __init__(self, function: Callable[..., Any], **state: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in state.items():
            self.add_module(name, part)

    def forward(self, ids: torch.Tensor, x: torch.Tensor | None = None) -> Any:
        return self.function(self, ids) if x is None else self.function(self, ids, x)


def ranged(module: nn.Module, inputs: Any, shapes: Any = None) -> tuple[Imported, Eager]:
    found = import_module(module.eval(), source(module, inputs, shapes))
    found = with_index_ranges(found, Eager(module, found.rebuild, found.signature).raises)
    return found, Eager(module, found.rebuild, found.signature)


def feeds_with(found: Imported, value: int, position: int = 0) -> dict[str, np.ndarray]:
    feeds = {name: tensor.numpy().copy() for name, tensor in found.call.flat.items()}
    feeds["ids"].reshape(-1)[position] = value
    return feeds


def refuses(found: Imported, feeds: dict[str, np.ndarray]) -> bool:
    try:
        found.signature.check(feeds)
    except InputError:
        return True
    return False


E5, E9 = nn.Embedding(5, 4), nn.Embedding(9, 4)


@pytest.mark.parametrize(
    ("function", "inputs", "state", "low", "high"),
    [
        (lambda m, i: m.e(i), (IDS,), {"e": E5}, 0, 4),
        (lambda m, i, x: torch.index_select(x, 1, i), (FLAT, DATA), {}, 0, 3),
        (lambda m, i, x: torch.gather(x, 0, i), (torch.tensor([[2, 0]]), DATA), {}, 0, 2),
        (lambda m, i, x: x[i], (FLAT, DATA), {}, -3, 2),
        (lambda m, i, x: x[:, i], (FLAT, DATA), {}, -4, 3),
        (lambda m, i, x: x[1, i], (FLAT, DATA), {}, -4, 3),
        (lambda m, i: m.big(i) + m.e(i), (IDS,), {"e": E5, "big": E9}, 0, 4),
        (lambda m, i: m.e(i.reshape(-1)[None].int()), (IDS,), {"e": E5}, 0, 4),
        (lambda m, i: m.e(torch.cat([i[:, :1], i[:, 1:]], 1)), (IDS,), {"e": E5}, 0, 4),
        (lambda m, i: m.e(i), (torch.tensor(3),), {"e": E5}, 0, 4),
        (lambda m, i: m.e(i.long()), (IDS.to(torch.uint8),), {"e": E5}, 0, 4),
        (lambda m, i: (m.e(i[:, 1:]), m.big(i)), (IDS,), {"e": E5, "big": E9}, 0, 8),
    ],
    ids=[
        *("embedding", "index_select", "gather", "x[i]", "x[:, i]", "x[1, i]", "narrowest", "reshaped"),
        *("sliced and joined", "scalar", "uint8", "only the wide one takes every id"),
    ],
)
def test_the_engine_raises_where_eager_raises(
    function: Any, inputs: tuple[Any, ...], state: dict[str, nn.Module], low: int, high: int
) -> None:
    found, eager = ranged(Ids(function, **state), inputs)
    (spec,) = [spec for spec in found.signature.inputs if spec.name == "ids"]
    assert spec.range is not None
    assert (spec.range.low, spec.range.high, spec.range.unique) == (low, high, False)
    unsigned = spec.dtype == "uint8"
    for value in (low - 1, low, high, high + 1):
        if unsigned and value < 0:
            continue
        feeds = feeds_with(found, value)
        assert refuses(found, feeds) == eager.raises(feeds) == (not low <= value <= high), value


def test_the_origin_names_the_module_and_its_line() -> None:
    module = nn.Sequential(nn.Embedding(5, 4)).eval()
    found = import_module(module, source(module, (IDS,)))
    found = with_index_ranges(found, Eager(module, found.rebuild, found.signature).raises)
    assert str(found.signature.inputs[0].range.origin).startswith("0 (sparse.py:")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "function",
    [
        lambda m, i, x: x.index_copy(0, i, x[:3] * 2),
        lambda m, i, x: x.index_put((i,), x[:3] * 2),
        lambda m, i, x: x.scatter(0, i[:, None].expand(3, 4), x * 2),
    ],
    ids=["index_copy", "index_put", "scatter"],
)
def test_positions_that_are_written_to_are_unique(function: Any) -> None:
    found, eager = ranged(Ids(function), (FLAT, DATA))
    (spec,) = [spec for spec in found.signature.inputs if spec.name == "ids"]
    assert spec.range is not None
    assert spec.range.unique
    assert spec.range.high == 2
    for value in (3, -4):
        feeds = feeds_with(found, value)
        assert refuses(found, feeds)
        assert eager.raises(feeds)


def test_adding_up_is_no_reason_to_be_unique() -> None:
    function = lambda m, i, x: x.index_add(0, i, x)  # noqa: E731
    found, _ = ranged(Ids(function), (FLAT, DATA))
    allowed = found.signature.inputs[0].range
    assert allowed is None or not allowed.unique


def test_ids_of_which_some_are_not_used_have_no_range() -> None:
    found, eager = ranged(Ids(lambda m, i: m.e(i[:, 1:]), e=E5), (IDS,))
    assert not eager.raises(feeds_with(found, 99))
    assert found.signature.inputs[0].range is None


def test_ids_that_are_changed_before_have_no_range() -> None:
    found, eager = ranged(Ids(lambda m, i: m.e((i + 1) % 5), e=E5), (IDS,))
    assert not eager.raises(feeds_with(found, 99))
    assert found.signature.inputs[0].range is None
    shifted, eager = ranged(Ids(lambda m, i: m.e(i + 1), e=E9), (IDS,))
    assert not eager.raises(feeds_with(shifted, -1))
    assert shifted.signature.inputs[0].range is None


def test_ids_that_are_clamped_have_no_range() -> None:
    found, _ = ranged(Ids(lambda m, i: m.e(i.clamp(0, 4)), e=E5), (IDS,))
    assert found.signature.inputs[0].range is None


@pytest.mark.parametrize(
    ("function", "low"), [(lambda m, i, x: x[i], "-(n)"), (lambda m, i, x: torch.index_select(x, 0, i), 0)]
)
def test_the_range_of_a_dynamic_axis_follows_it(function: Any, low: Any) -> None:
    found, eager = ranged(Ids(function), (FLAT, torch.randn(6, 4)), ({}, {0: "n"}))
    allowed = found.signature.inputs[0].range
    assert allowed is not None
    assert (allowed.low, allowed.high) == (low, "(n) - 1")
    feeds = feeds_with(found, 3)
    assert not refuses(found, feeds)
    feeds["x"] = feeds["x"][:3]
    assert refuses(found, feeds)
    assert eager.raises(feeds)


def test_a_table_larger_than_the_type_of_the_ids_needs_no_range() -> None:
    found, _ = ranged(Ids(lambda m, i: m.e(i.long()), e=nn.Embedding(300, 4)), (IDS.to(torch.uint8),))
    assert found.signature.inputs[0].range is None


def test_a_range_says_nothing_about_other_inputs() -> None:
    module = Call(lambda self, ids, lengths: self.e(ids) * lengths, e=E5)
    found = import_module(module.eval(), source(module, (IDS, torch.tensor(7))))
    found = with_index_ranges(found, Eager(module, found.rebuild, found.signature).raises)
    assert [spec.range is None for spec in found.signature.inputs] == [False, True]
