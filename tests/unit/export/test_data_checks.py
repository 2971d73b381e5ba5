"""What eager refuses in the values that forward computes, the translated graph refuses too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tiny_models import Call, source
from torch import nn
from torch.export import Dim

from aotc.errors import RefusedError
from aotc.export.data_checks import REFUSES_NEGATIVE
from aotc.export.importer import Imported, import_module, with_index_ranges
from aotc.export.index_guards import guarded_index
from aotc.parity.reference import Eager

Function = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]
IDS = torch.tensor([1, 2, 3])
X = torch.randn(5, 3)
TRIED = ([0, 1, 2], [1, 2, 5], [1, 2, 6], [1, 2, -4], [4, 1, 2], [3, 3, 1])

COMPUTED: dict[str, Function] = {
    "embedding": lambda m, i, x: m.table(i - 1),
    "positions": lambda m, i, x: m.table((i != 0).long().cumsum(-1) - 1),
    "index_select": lambda m, i, x: torch.index_select(x, 0, i - 1),
    "gather": lambda m, i, x: x.gather(0, (i - 1)[:, None].expand(-1, 3)),
    "gather int32": lambda m, i, x: x.index_select(0, i.int() - 1),
    "scatter": lambda m, i, x: x.scatter(0, (i - 1)[:, None].expand(-1, 3), 1.0),
    "scatter_": lambda m, i, x: x.clone().scatter_(0, (i - 1)[:, None].expand(-1, 3), 2.0),
    "scatter_add": lambda m, i, x: x.scatter_add(0, (i - 1)[:, None].expand(-1, 3), x[:3]),
    "scatter_reduce": lambda m, i, x: x.scatter_reduce(0, (i - 1)[:, None].expand(-1, 3), x[:3], "amax"),
    "index_add": lambda m, i, x: x.index_add(0, i - 1, x[:3]),
    "index_copy": lambda m, i, x: x.index_copy(0, i - 1, x[:3] * 2),
    "index_fill": lambda m, i, x: x.index_fill(0, i - 1, 2.0),
    "one_hot": lambda m, i, x: F.one_hot(i - 1, 5),
    "cross_entropy": lambda m, i, x: F.cross_entropy(x[:3], (i - 1) % 4),
    "nll_loss ignores -100": lambda m, i, x: F.nll_loss(x[:3], torch.where(i == 1, -100, i - 2)),
    "multi_margin_loss": lambda m, i, x: F.multi_margin_loss(x[:3], i - 1),
    "binary_cross_entropy": lambda m, i, x: F.binary_cross_entropy((i - 1) / 3, (i > 1).float()),
    "one_hot of any number": lambda m, i, x: (
        F.one_hot(i - 1, 5).sum(0) + torch.repeat_interleave(i - 1).sum()
    ),
    "wraps around": lambda m, i, x: m.table(i.int() * 2**29 // 2**29),
    "_check of a fraction": lambda m, i, x: (torch._check((i[0] * 0.1).item() < 0.25), x * 2)[1],
    "repeats": lambda m, i, x: torch.repeat_interleave(x[:3], i - 1, 0),
    "bincount": lambda m, i, x: torch.bincount(i - 1, minlength=4),
    "_assert_async": lambda m, i, x: (torch._assert_async((i > 0).all()), x * 2)[1],
    "_check": lambda m, i, x: (torch._check(i[0].item() > 0), x * 2)[1],
    "_check of arithmetic": lambda m, i, x: (torch._check(i[0].item() * 2 + 1 != i[1].item()), x * 2)[1],
    "_check of a float": lambda m, i, x: (torch._check((i[0] * 0.5).item() > 0.25), x * 2)[1],
    "_check of a size": lambda m, i, x: (torch._check(i[0].item() < x.shape[0] - 1), x * 2)[1],
    "negative is allowed": lambda m, i, x: x[i - 1],
    "cond": lambda m, i, x: torch.cond(
        x.sum() > 1e9, lambda a, b: m.table(a) * 2, lambda a, b: m.table(a - 1), (i, x)
    ),
}


def imported(function: Function, inputs: Any = (IDS, X), shapes: Any = None) -> tuple[Imported, nn.Module]:
    module = Call(function, table=nn.Embedding(5, 3)).eval()
    found = import_module(module, source(module, inputs, shapes))
    return with_index_ranges(found, Eager(module, found.rebuild, found.signature).raises), module


def answer(run: Callable[[], np.ndarray]) -> np.ndarray | None:
    try:
        return np.asarray(run())
    except Exception:  # noqa: BLE001 - eager and ONNX Runtime each have several classes for it
        return None


@pytest.mark.parametrize("name", COMPUTED)
def test_the_graph_answers_where_eager_does_and_only_there(name: str) -> None:
    found, module = imported(COMPUTED[name])
    # Not the oracle: its fall-back, the reference implementation, has no bounds checks of its own.
    session = onnxruntime.InferenceSession(ir.to_proto(found.model).SerializeToString())
    names = [value.name for value in session.get_inputs()]
    refused = 0
    for values in TRIED:
        ids = torch.tensor(values)
        feeds = dict(zip(names, (ids.numpy(), X.numpy()), strict=True))
        want = answer(lambda i=ids: module(i, X).detach().numpy())
        got = answer(lambda f=feeds: session.run(None, f)[0])
        assert (want is None) == (got is None), f"{name}: eager {want}, graph {got} for {values}"
        refused += want is None
        if want is not None:
            np.testing.assert_allclose(got, want, rtol=1e-6)
    assert refused, "no input of this test is refused, so it shows nothing"


@pytest.mark.parametrize("op", sorted(REFUSES_NEGATIVE))
def test_the_operators_that_refuse_minus_one_are_those_of_the_table(op: str) -> None:
    ids, x = torch.tensor([-1]), torch.rand(4, 3)
    wide = torch.full((1, 3), -1)
    calls = {
        "embedding": lambda: F.embedding(ids, x),
        "embedding_bag": lambda: F.embedding_bag(ids, x, torch.tensor([0])),
        "gather": lambda: x.gather(0, wide),
        "index_add": lambda: x.index_add(0, ids, x[:1]),
        "index_copy": lambda: x.index_copy(0, ids, x[:1]),
        "index_reduce": lambda: x.index_reduce(0, ids, x[:1], "amax"),
        "index_select": lambda: x.index_select(0, ids),
        "scatter": lambda: x.scatter(0, wide, 1.0),
        "scatter_add": lambda: x.scatter_add(0, wide, x[:1]),
        "scatter_reduce": lambda: x.scatter_reduce(0, wide, x[:1], "sum"),
    }
    with pytest.raises((RuntimeError, IndexError)):
        calls[op]()


def guards(model: ir.Model) -> list[ir.Node]:
    live = {value for node in model.graph.all_nodes() for value in node.inputs} | set(model.graph.outputs)
    return [n for n in model.graph.all_nodes() if guarded_index(n) is not None and n.outputs[0] in live]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda m, i, x: m.table(i), 0),
        (lambda m, i, x: m.table(torch.arange(x.shape[0])), 0),
        (lambda m, i, x: m.table(x.argmax(-1)), 0),
        (lambda m, i, x: m.table(x.topk(2).indices), 0),
        (lambda m, i, x: m.table((x > 0).long().sum(-1)), 0),
        (lambda m, i, x: m.table(i.clamp(0, 4)), 0),
        (lambda m, i, x: m.table(torch.where(x[:3, 0] > 0, i, 0)), 1),
        (lambda m, i, x: m.table((torch.arange(x.shape[0])[:, None] + torch.tensor([0, 1])) * 2 % 5), 0),
        (lambda m, i, x: m.table(i - 1), 1),
        (lambda m, i, x: m.table(i - 1) + torch.index_select(x, 0, i - 1), 2),
        (lambda m, i, x: m.table((x * 2).long()[:, 0].abs() + 1 - 1), 1),
    ],
)
def test_an_index_is_guarded_only_where_it_may_be_negative(function: Function, left: int) -> None:
    positive = (IDS.clamp(max=3), torch.rand(5, 3))
    found, _ = imported(function, positive, (None, {0: Dim("n")}))
    assert len(guards(found.model)) == left


def test_an_assertion_that_has_no_graph_form_is_refused_with_its_line() -> None:
    def function(m: Any, i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch._check(i[0].item() // 2 < 7)
        return x * 2

    with pytest.raises(RefusedError, match="cannot be expressed in ONNX") as caught:
        imported(function)
    assert caught.value.name == "data-assertion"
    assert caught.value.where is not None
