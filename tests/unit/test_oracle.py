from __future__ import annotations

import gc
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from aotc.errors import RefusedError
from aotc.ir.text import from_text, to_text
from aotc.oracle import Oracle
from aotc.runtime.failures import runtime_failures

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
ORACLE = Oracle()
LARGE = ",".join(str(i) for i in range(600))


def _run(text: str, **feeds: np.ndarray) -> dict[str, np.ndarray]:
    return ORACLE.run(from_text(HEADER + text), feeds)


def test_outputs_come_by_name() -> None:
    x = np.array([-1, 2], np.float32)
    outputs = _run("g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x) z = Relu (x) }", x=x)
    assert {name: array.tolist() for name, array in outputs.items()} == {"y": [1, -2], "z": [0, 2]}


def test_large_constants_anywhere_are_values_and_the_model_stays_as_it_is() -> None:
    text = HEADER + (
        "g (float[600] x, bool c) => (float[600] y, float[600] w) <float[600] w = {#}, float[600] a = {#}> {"
        " k = Constant <value = float[600] {#}> () s = Add (k, a)"
        " y = If (c) <"
        "then_branch = t () => (float[600] u) <float[600] b = {#}> { t1 = Add (s, b) u = Add (t1, x) },"
        "else_branch = e () => (float[600] v) <float[600] b = {#}> { v = Sub (s, b) }> }"
    ).replace("#", LARGE)
    model = from_text(text)
    before = to_text(model, max_elements=1000)
    one = np.ones(600, np.float32)
    outputs = ORACLE.run(model, {"x": one, "c": np.array(True)})
    assert np.array_equal(outputs["y"], 3 * np.arange(600) + 1)
    assert np.array_equal(outputs["w"], np.arange(600))
    assert np.array_equal(ORACLE.run(model, {"x": one, "c": np.array(False)})["y"], np.arange(600))
    assert to_text(model, max_elements=1000) == before


def test_a_default_holds_unless_the_caller_feeds_the_input() -> None:
    text = f"g (float[600] x, float[600] d = {{{LARGE}}}) => (float[600] y) {{ y = Add (x, d) }}"
    zero, two = np.zeros(600, np.float32), np.full(600, 2, np.float32)
    assert np.array_equal(_run(text, x=zero)["y"], np.arange(600))
    assert np.array_equal(_run(text, x=zero, d=two)["y"], two)


def test_what_onnx_runtime_has_no_kernel_for_runs_on_the_reference() -> None:
    # ONNX Runtime's CPU provider has no float64 Conv.
    x, w = np.ones((1, 1, 3), np.float64), np.full((1, 1, 2), 1e-12, np.float64)
    y = _run("g (double[1,1,3] x, double[1,1,2] w) => (double[1,1,2] y) { y = Conv (x, w) }", x=x, w=w)["y"]
    assert y.dtype == np.float64
    assert np.allclose(y, 2e-12, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    "dtype", [ir.DataType.BFLOAT16, ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2, ir.DataType.INT4]
)
def test_types_that_numpy_lacks_cross_exactly(dtype: ir.DataType) -> None:
    x = np.array([[-1, 2, 3], [4, 5, -6]]).astype(dtype.numpy())
    model = from_text(HEADER + "g (float[2,3] x) => (float[3,2] y) { y = Transpose (x) }")
    for value in (model.graph.inputs[0], model.graph.outputs[0]):
        value.type = ir.TensorType(dtype)
    y = ORACLE.run(model, {"x": x})["y"]
    assert y.dtype == x.dtype
    assert np.array_equal(y.astype(np.float32), x.T.astype(np.float32))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x) => (float[2] y) { y = NoSuchOperator (x) }",
        "g (float[2] x) => (float[3] y) <int64[1] s = {3}> { y = Reshape (x, s) }",
    ],
)
def test_a_graph_that_nothing_runs_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match=r"error\[oracle\]") as info:
        _run(text, x=np.zeros(2, np.float32))
    assert info.value.__cause__ is not None


def _node(body: str) -> ir.Node:
    return from_text(HEADER + f"g (float[4] x) => (y) {{ {body} }}").graph.node(0)


def test_one_node_runs_alone_with_optional_inputs_and_outputs_left_out() -> None:
    x = ir.Tensor(np.array([-1, 5], np.float32))
    [y] = ORACLE.evaluate(
        _node('y = Clip (x, "", x)'), [x, None, ir.Tensor(np.array(2, np.float32))], {"": 24}
    )
    assert y is not None
    assert y.tolist() == [-1, 2]
    node = _node('y, "", d = LayerNormalization (x, x)')
    first, second, third = ORACLE.evaluate(node, [x, ir.Tensor(np.ones(2, np.float32))], {"": 24})
    assert second is None
    assert first is not None
    assert third is not None
    assert np.allclose(first, [-1, 1], rtol=1e-5, atol=0)
    assert np.allclose(third, [1 / 3], rtol=1e-5, atol=0)


def test_one_node_of_untyped_bfloat16() -> None:
    x = ir.Tensor(np.array([[1, 2]], ml_dtypes.bfloat16))
    [y] = ORACLE.evaluate(_node("y = Transpose (x)"), [x], {"": 24})
    assert y is not None
    assert (y.dtype, y.shape) == (ml_dtypes.bfloat16, (2, 1))


def test_results_without_elements_and_scalars() -> None:
    [empty] = ORACLE.evaluate(_node("y = Neg (x)"), [ir.Tensor(np.zeros((0, 2), np.float32))], {"": 24})
    [scalar] = ORACLE.evaluate(_node("y = Neg (x)"), [ir.Tensor(np.array(2, np.int64))], {"": 24})
    assert empty is not None
    assert scalar is not None
    assert (empty.shape, np.shape(scalar), int(scalar)) == ((0, 2), (), -2)


def test_nodes_with_subgraphs_and_unknown_domains_are_refused() -> None:
    node = from_text(
        HEADER + "g (bool c, float[1] x) => (float[1] y) { y = If (c) <"
        "then_branch = t () => (float[1] u) { u = Neg (x) },"
        "else_branch = e () => (float[1] v) { v = Abs (x) }> }"
    ).graph.node(0)
    with pytest.raises(RefusedError, match="If has subgraphs"):
        ORACLE.evaluate(node, [ir.tensor(True)], {"": 24})
    with pytest.raises(RefusedError, match="the domain '' has no opset import"):
        ORACLE.evaluate(_node("y = Relu (x)"), [ir.tensor([1.0])], {"com.acme": 1})


def test_what_was_evaluated_is_free_at_once() -> None:
    """Not at the next collection of cycles: these are weights."""
    node = ir.node("Neg", [ir.Value(name="x")])
    node.outputs[0].name = "y"
    array = np.ones((3, 4), np.float32)
    alive = weakref.ref(array)
    gc.disable()
    try:
        Oracle().evaluate(node, [ir.tensor(array)], {"": 24})
        del array
        assert alive() is None
    finally:
        gc.enable()


def test_a_file_runs_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [onnx.helper.make_node("Gather", ["t", "i"], ["y"])]
    table = onnx.numpy_helper.from_array(np.arange(3.0), "t")
    values = [
        onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, ["n"]),
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, ["n"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", values[:1], values[1:], [table])
    opsets = [onnx.helper.make_opsetid("", 11)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=7), path)
    run = Oracle(1).open_file(path)
    np.testing.assert_array_equal(run({"i": np.array([2, -1, 0])})[0], [2.0, 2.0, 0.0])
    with pytest.raises(runtime_failures(), match="out of data bounds"):
        run({"i": np.array([3])})
    path.write_bytes(path.read_bytes().replace(b"Gather", b"Gothic"))
    with pytest.raises(RefusedError, match=r"onnxruntime does not run this file: (.|\n)*Gothic"):
        Oracle().open_file(path)
