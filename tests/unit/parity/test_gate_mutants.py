"""The gate by mutation: wrong graphs are caught, right ones pass over many seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import tiny_models

from aotc.export.importer import given_inputs, import_module, with_index_ranges
from aotc.oracle import Oracle
from aotc.parity.cases import Given, all_cases
from aotc.parity.gate import judge
from aotc.parity.golden import Reference
from aotc.parity.reference import Eager, write_references
from aotc.parity.verdict import CaseVerdict
from aotc.pipeline import OPTIMISE
from aotc.rewrite import Context, run_passes
from aotc.signature import Signature

SOURCES = {f.__name__: f for f in (tiny_models.mlp, tiny_models.cnn, tiny_models.decoder, tiny_models.audio)}
ORACLE = Oracle(1)
Edit = Callable[[ir.Graph], None]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A model after the passes, with eager's side of the gate."""

    model: ir.Model
    eager: Eager
    given: list[Given]
    references: list[Reference]
    folder: Path

    @property
    def signature(self) -> Signature:
        return self.eager.signature

    def judge(self, model: ir.Model) -> tuple[CaseVerdict, ...]:
        def run(feeds: Any) -> Any:
            self.signature.check(feeds)
            return ORACLE.run(model, feeds)

        return judge(run, self.references, self.folder.joinpath, self.signature)


def record(name: str, folder: Path) -> Recorded:
    source = SOURCES[name]()
    module = source.model()
    found = import_module(module, source)
    found = with_index_ranges(found, Eager(module, found.rebuild, found.signature).raises)
    run_passes(found.model, OPTIMISE, Context(ORACLE))
    eager = Eager(module, found.rebuild, found.signature)
    given = given_inputs(source, module, found.signature, eager.run)
    return at_seed(Recorded(found.model, eager, given, [], folder), 0, folder)


def at_seed(recorded: Recorded, seed: int, folder: Path) -> Recorded:
    """Return the same model with eager's side for other drawn inputs."""
    cases = all_cases(recorded.signature, recorded.given, seed=seed)
    references = write_references(recorded.eager, cases, folder, {})
    return dataclasses.replace(recorded, references=references, folder=folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    return {name: record(name, tmp_path_factory.mktemp(name)) for name in SOURCES}


def node(graph: ir.Graph, op: str, index: int = 0) -> ir.Node:
    return [n for n in graph if n.op_type == op][index]


def set_array(value: ir.Value, array: Any, dtype: Any = None) -> None:
    assert value.const_value is not None
    value.const_value = ir.tensor(
        np.asarray(array, dtype or value.const_value.dtype.numpy()), name=value.name
    )


def array_of(value: ir.Value | None) -> np.ndarray:
    assert value is not None
    assert value.const_value is not None
    return value.const_value.numpy().copy()


def weight(name: str, change: Callable[[np.ndarray], Any]) -> Edit:
    def edit(graph: ir.Graph) -> None:
        value = graph.initializers[name]
        set_array(value, change(array_of(value)))

    return edit


def one_element(array: np.ndarray) -> np.ndarray:
    array.reshape(-1)[array.size // 2] += 0.01 * np.abs(array).max()
    return array


def attribute(op: str, key: str, value: Any, index: int = 0) -> Edit:
    def edit(graph: ir.Graph) -> None:
        node(graph, op, index).attributes[key] = ir.convenience.convert_attribute(key, value)

    return edit


def swap_inputs(op: str, index: int = 0) -> Edit:
    def edit(graph: ir.Graph) -> None:
        found = node(graph, op, index)
        first, second = found.inputs[:2]
        found.replace_input_with(0, second)
        found.replace_input_with(1, first)

    return edit


def bypass(op: str, through: int, index: int = 0) -> Edit:
    """Take one of the node's inputs as its result."""

    def edit(graph: ir.Graph) -> None:
        found = node(graph, op, index)
        found.outputs[0].replace_all_uses_with(found.inputs[through], replace_graph_outputs=False)

    return edit


def insert_after(op: str, make: Callable[[ir.Value], list[ir.Node]], index: int = 0) -> Edit:
    def edit(graph: ir.Graph) -> None:
        found = node(graph, op, index)
        output = found.outputs[0]
        users = list(output.uses())
        nodes = make(output)
        graph.insert_after(found, nodes)
        for use in users:
            use.node.replace_input_with(use.idx, nodes[-1].outputs[0])

    return edit


def through_half(value: ir.Value) -> list[ir.Node]:
    half = ir.node("Cast", [value], attributes={"to": int(ir.DataType.FLOAT16)})
    return [half, ir.node("Cast", [half.outputs[0]], attributes={"to": int(ir.DataType.FLOAT)})]


def both(*edits: Edit) -> Edit:
    def edit(graph: ir.Graph) -> None:
        for each in edits:
            each(graph)

    return edit


def scale_input(op: str, factor: float, index: int = 0) -> Edit:
    """Multiply the constant that is the node's second input."""

    def edit(graph: ir.Graph) -> None:
        value = node(graph, op, index).inputs[1]
        assert value is not None
        set_array(value, array_of(value) * factor)

    return edit


def quick_gelu(graph: ir.Graph) -> None:
    gelu = node(graph, "Gelu")
    x = gelu.inputs[0]
    factor = ir.Value(name="quick", const_value=ir.tensor(np.float32(1.702), name="quick"))
    graph.register_initializer(factor)
    scaled = ir.node("Mul", [x, factor])
    sigmoid = ir.node("Sigmoid", [scaled.outputs[0]])
    product = ir.node("Mul", [x, sigmoid.outputs[0]])
    graph.insert_before(gelu, [scaled, sigmoid, product])
    gelu.outputs[0].replace_all_uses_with(product.outputs[0])


def fixed_reshape(graph: ir.Graph) -> None:
    """Bake the example's batch and length into the first reshape."""
    shape = ir.Value(name="baked", const_value=ir.tensor(np.array([2, 5, 3, 2, 8]), name="baked"))
    graph.register_initializer(shape)
    node(graph, "Reshape").replace_input_with(1, shape)


def permuted_output(graph: ir.Graph) -> None:
    output = graph.outputs[0]
    last = output.producer()
    assert last is not None
    index = ir.Value(name="order", const_value=ir.tensor(np.array([1, 0, 2]), name="order"))
    graph.register_initializer(index)
    gather = ir.node("Gather", [output, index], attributes={"axis": -1})
    gather.outputs[0].type, gather.outputs[0].shape = output.type, output.shape
    gather.outputs[0].name, output.name = output.name, "before_order"
    graph.insert_after(last, gather)
    graph.outputs[0] = gather.outputs[0]


def shift_positions(graph: ir.Graph) -> None:
    value = graph.initializers["positions.weight"]
    set_array(value, np.roll(array_of(value), 1, axis=0))


MUTANTS: dict[str, dict[str, Edit]] = {
    "mlp": {
        "weight scaled": weight("up.weight", lambda a: a * 1.01),
        "weight scaled by 1e-5": weight("down.weight", lambda a: a * (1 + 1e-5)),
        "one element": weight("down.weight", one_element),
        "one element of a norm": weight("norm.weight", one_element),
        "lost bias": weight("up.bias", np.zeros_like),
        "lost last bias": weight("down.bias", np.zeros_like),
        "bias of another row": weight("down.bias", lambda a: np.roll(a, 1)),
        "epsilon": attribute("LayerNormalization", "epsilon", 1e-5),
        "norm dropped": bypass("LayerNormalization", 0),
        "erf for tanh": attribute("Gelu", "approximate", "none"),
        "quick gelu": quick_gelu,
        "activation dropped": bypass("Gelu", 0),
        "alpha": attribute("Gemm", "alpha", 0.999, 1),
        "half weights": weight("up.weight", lambda a: a.astype(np.float16)),
        "half in between": insert_after("Gelu", through_half),
    },
    "cnn": {
        "weight scaled": weight("conv.weight", lambda a: a * 1.01),
        "one element": weight("conv.weight", one_element),
        "folded bias lost": weight("conv.bias", np.zeros_like),
        "channels permuted": weight("point.weight", lambda a: a[:, ::-1]),
        "filter flipped": weight("conv.weight", lambda a: a[..., ::-1]),
        "filter transposed": weight("conv.weight", lambda a: a.swapaxes(2, 3)),
        "one filter lost": weight("conv.weight", lambda a: a * (np.arange(6) != 3)[:, None, None, None]),
        "pads on one side": attribute("Conv", "pads", (2, 2, 0, 0)),
        "pooling window": attribute("MaxPool", "kernel_shape", (3, 2)),
        "pooling dropped": bypass("MaxPool", 0),
        "activation dropped": bypass("Relu", 0),
        "output permuted": permuted_output,
        "half in between": insert_after("Relu", through_half),
    },
    "decoder": {
        "weight scaled": weight("layers.1.qkv.weight.transposed", lambda a: a * 1.01),
        "one element": weight("layers.0.fc.weight.transposed", one_element),
        "one row of the table": weight(
            "tokens.weight", lambda a: a * np.where(np.arange(20) == 7, 1.01, 1)[:, None]
        ),
        "lost bias": weight("layers.1.proj.bias", np.zeros_like),
        "mask dropped": bypass("Where", 2),
        "mask dropped in the second layer": bypass("Where", 2, 1),
        "mask off by one": scale_input("Trilu", 2),
        "mask of the past": attribute("Trilu", "upper", 0),
        "softmax axis": attribute("Softmax", "axis", -2),
        "attention scale": scale_input("Div", 2**0.5),
        "q and k swapped": weight(
            "layers.0.qkv.weight.transposed", lambda a: a[:, np.r_[16:32, 0:16, 32:48]]
        ),
        "k and v swapped": weight(
            "layers.0.qkv.weight.transposed", lambda a: a[:, np.r_[0:16, 32:48, 16:32]]
        ),
        "position off by one": shift_positions,
        "epsilon": attribute("LayerNormalization", "epsilon", 1e-3),
        "tanh for erf": attribute("Gelu", "approximate", "tanh"),
        "sizes of the example": fixed_reshape,
        "residual dropped": bypass("Add", 1, 4),
        "half in between": insert_after("Softmax", through_half),
        "half weights": weight("head.weight.transposed", lambda a: a.astype(np.float16)),
    },
    "audio": {
        "weight scaled": weight("second.weight", lambda a: a * 1.01),
        "one element": weight("out.weight", one_element),
        "lost bias": weight("first.bias", np.zeros_like),
        "lost last bias": weight("out.bias", np.zeros_like),
        "slope": attribute("LeakyRelu", "alpha", 0.201),
        "relu for leaky": attribute("LeakyRelu", "alpha", 0.0),
        "dilation": both(attribute("Conv", "dilations", (1,), 1), attribute("Conv", "pads", (1, 1), 1)),
        "groups mixed": weight("second.weight", lambda a: a[::-1]),
        "padding on one side": attribute("Conv", "pads", (4, 0), 0),
        "filter flipped": weight("out.weight", lambda a: a[..., ::-1]),
        "abs dropped": bypass("Abs", 0),
        "last activation": lambda graph: setattr(node(graph, "Tanh"), "op_type", "Softsign"),
        "half in between": insert_after("ConvTranspose", through_half),
    },
}


def every_mutant() -> Iterator[Any]:
    for name, edits in MUTANTS.items():
        for title, edit in edits.items():
            yield pytest.param(name, edit, id=f"{name}: {title}")


def test_there_are_enough_mutants() -> None:
    assert sum(map(len, MUTANTS.values())) >= 40


@pytest.mark.parametrize(("name", "edit"), list(every_mutant()))
def test_a_wrong_graph_is_caught(recorded: dict[str, Recorded], name: str, edit: Edit) -> None:
    mutant = recorded[name].model.clone()
    edit(mutant.graph)
    verdicts = recorded[name].judge(mutant)
    assert any(not verdict.passed for verdict in verdicts), max(verdict.ratio for verdict in verdicts)


@pytest.mark.parametrize("name", SOURCES)
def test_a_right_graph_passes(recorded: dict[str, Recorded], name: str) -> None:
    verdicts = recorded[name].judge(recorded[name].model)
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert {verdict.outcome for verdict in verdicts} >= {"equal"}


@pytest.mark.parametrize("seed", range(1, 11))
def test_right_graphs_give_no_false_alarm(recorded: dict[str, Recorded], tmp_path: Path, seed: int) -> None:
    for name in SOURCES:
        folder = tmp_path / name
        folder.mkdir()
        found = at_seed(recorded[name], seed, folder)
        verdicts = found.judge(found.model)
        assert [(v.label, v.detail) for v in verdicts if not v.passed] == [], name
        assert max(verdict.ratio for verdict in verdicts) < 0.8
