"""The float64 run of an ONNX graph against a graph that is float64 from the start, or against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnx_files import ORACLE, constant, info, save
from torch.nn import functional

from aotc.errors import RefusedError
from aotc.export.onnx_file import read_onnx
from aotc.parity import onnx_emulate, onnx_float64
from aotc.parity.onnx_float64 import WideGraph

Node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 4, 9, 8)).astype(np.float32)


def wide(path: Path, **feeds: Any) -> list[Any]:
    return WideGraph.of_file(read_onnx(path), path.parent, 1).run(feeds)


def one(folder: Path, op: str, *weights: Any, **attributes: Any) -> Path:
    names = [f"w{i}" for i in range(len(weights))]
    constants = [constant(name, value) for name, value in zip(names, weights, strict=True)]
    nodes = [Node(op, ["x", *names], ["y"], **attributes)]
    return save(folder / "m.onnx", nodes, [info("x", X.shape)], [info("y", None)], constants)


W = RNG.standard_normal((6, 2, 3, 2)).astype(np.float32)
B = RNG.standard_normal(6).astype(np.float32)
T = RNG.standard_normal((4, 3, 3, 2)).astype(np.float32)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 3], "dilations": [2, 1], "pads": [2, 1, 2, 0]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 1]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
        {"auto_pad": "VALID"},
    ],
)
def test_convolutions_are_near_the_float32_kernel_and_nearer_to_the_truth(
    attributes: dict[str, Any], tmp_path: Path
) -> None:
    path = one(tmp_path, "Conv", W, B, group=2, **attributes)
    (got,) = wide(path, x=X)
    (narrow,) = ORACLE.open_file(path)({"x": X})
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, narrow, rtol=1e-5, atol=1e-5)
    assert np.abs(got - narrow).max() > 0


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "output_padding": [1, 2], "pads": [0, 1, 1, 0]},
        {"dilations": [2, 1], "group": 2},
    ],
)
def test_transposed_convolutions(attributes: dict[str, Any], tmp_path: Path) -> None:
    path = one(
        tmp_path, "ConvTranspose", T, RNG.standard_normal(3 * attributes.get("group", 1)), **attributes
    )
    (got,) = wide(path, x=X)
    np.testing.assert_allclose(got, ORACLE.open_file(path)({"x": X})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "op", ["GlobalMaxPool", "GlobalAveragePool", "Softplus", "HardSigmoid", "Erf", "Elu"]
)
def test_operators_without_a_float64_kernel(op: str, tmp_path: Path) -> None:
    path = one(tmp_path, op)
    (got,) = wide(path, x=X)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, ORACLE.open_file(path)({"x": X})[0], rtol=1e-5, atol=1e-6)


def test_types_inside_the_graph_are_widened(tmp_path: Path) -> None:
    """Casts, constants and fills: what stays in float32 anywhere shows in the last digits."""
    nodes = [
        Node("Cast", ["x"], ["half"], to=10),
        Node("Cast", ["half"], ["full"], to=1),
        Node("Shape", ["x"], ["shape"]),
        Node("ConstantOfShape", ["shape"], ["third"], value=constant("", [1 / 3])),
        Node("Constant", [], ["k"], value_float=0.5),
        Node("Add", ["full", "third"], ["sum"]),
        Node("Mul", ["sum", "k"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [info("x", X.shape)], [info("y", None)])
    (got,) = wide(path, x=X)
    np.testing.assert_allclose(got, (X.astype(np.float64) + np.float64(np.float32(1 / 3))) / 2, rtol=1e-15)


def test_inputs_that_must_stay_float32(tmp_path: Path) -> None:
    nodes = [Node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    scales = [constant("scales", [1, 1, 2, 1.5])]
    path = save(tmp_path / "m.onnx", nodes, [info("x", X.shape)], [info("y", [2, 4, 18, 12])], scales)
    (got,) = wide(path, x=X)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, ORACLE.open_file(path)({"x": X})[0], rtol=1e-5, atol=1e-5)


def test_branches_and_what_they_capture(tmp_path: Path) -> None:
    def side(op: str) -> onnx.GraphProto:
        return helper.make_graph([Node(op, ["x", "r"], [op])], op, [], [info(op, None)])

    nodes = [
        Node("Relu", ["x"], ["r"]),
        Node("If", ["c"], ["y"], then_branch=side("Add"), else_branch=side("Sub")),
    ]
    inputs = [info("x", X.shape), info("c", [], "bool")]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", X.shape)])
    big = X.astype(np.float64)
    np.testing.assert_array_equal(wide(path, x=X, c=np.array(True))[0], big + np.maximum(big, 0))
    np.testing.assert_array_equal(wide(path, x=X, c=np.array(False))[0], big - np.maximum(big, 0))


def test_branches_that_no_run_took_are_told(tmp_path: Path) -> None:
    def side(name: str) -> onnx.GraphProto:
        inner = [
            helper.make_graph([Node(op, ["x"], [op])], op, [], [info(op, None)]) for op in ("Abs", "Neg")
        ]
        node = Node("If", ["d"], [name], name=f"inner_{name}", then_branch=inner[0], else_branch=inner[1])
        return helper.make_graph([node], name, [], [info(name, None)])

    nodes = [Node("If", ["c"], ["y"], name="outer", then_branch=side("p"), else_branch=side("q"))]
    inputs = [info("x", X.shape), info("c", [], "bool"), info("d", [], "bool")]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", X.shape)])
    graph = WideGraph.of_file(onnx.load(path), tmp_path, 1)
    assert graph.untaken() == []
    graph.run({"x": X, "c": np.array(True), "d": np.array(True)})
    assert graph.untaken() == ["else_branch of If 'outer'", "else_branch of If 'inner_p'"]
    graph.run({"x": X, "c": np.array(False), "d": np.array(False)})
    graph.run({"x": X, "c": np.array(True), "d": np.array(False)})
    assert graph.untaken() == ["then_branch of If 'inner_q'"]


def test_a_stand_in_that_computes_something_else_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one(tmp_path, "Erf")
    monkeypatch.setattr(onnx_float64, "emulate", lambda node, inputs, opsets: [np.tanh(inputs[0])])
    with pytest.raises(RefusedError, match="Erf has no float64 form that can be trusted"):
        wide(path, x=X)


def test_no_kernel_at_all(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx",
        [Node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", group=2, activation="Relu")],
        [info("x", X.shape)],
        [info("y", [2, 6, None, None])],
        [constant("w", W)],
        domains=[helper.make_opsetid("com.microsoft", 1)],
    )
    with pytest.raises(RefusedError, match="FusedConv has no float64 kernel"):
        wide(path, x=X)


def test_the_stand_in_of_a_convolution_is_float64_throughout() -> None:
    """Against torch's own double convolution: the same digits."""
    import onnx_ir as ir

    node = ir.node("Conv", [ir.Value(name="x"), ir.Value(name="w")], attributes={"pads": [1, 1, 1, 1]})
    data, weight = RNG.standard_normal((1, 3, 5, 5)), RNG.standard_normal((2, 3, 3, 3))
    (got,) = onnx_emulate.emulate(node, [data, weight], {"": 17})
    want = functional.conv2d(torch.from_numpy(data), torch.from_numpy(weight), padding=1).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-15)
