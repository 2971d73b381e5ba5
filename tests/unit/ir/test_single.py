from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from aotc.ir.constants import constant
from aotc.ir.single import isolate, result_bytes
from aotc.ir.text import from_text
from aotc.ir.verify import verify
from aotc.ir.walk import why_not_deterministic

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'


def _node(body: str, initializers: str = "") -> tuple[ir.Node, list[ir.TensorProtocol | None]]:
    model = from_text(HEADER + f"g (float[2] x) => (y) <{initializers}> {{ {body} }}")
    node = model.graph.node(0)
    return node, [constant(value) for value in node.inputs]


@pytest.mark.parametrize(
    ("body", "initializers", "expected"),
    [
        ("y = ConstantOfShape (s)", "int64[2] s = {100000, 100000}", 4 * 10**10),
        ("y = Expand (a, s)", "float16[1] a = {0}, int64[1] s = {100000}", 2 * 10**5),
        ("y = Tile (a, s)", "float[2] a = {0,1}, int64[1] s = {100000}", 8 * 10**5),
        ("y = Range (a, b, c)", "int64 a = {0}, int64 b = {100000}, int64 c = {1}", 8 * 10**5),
        ("y = Transpose (a)", "float[2,3] a = {0,1,2,3,4,5}", 24),
        ("y, z = Split <num_outputs = 2> (a)", "float[4] a = {0,1,2,3}", 16),
        ("y = Sqrt (a)", "float a = {0}", 4),
        ("y = Neg (a)", "float[0,3] a = {}", 0),
        ("y = NonZero (a)", "float[4] a = {0,1,2,3}", None),
    ],
)
def test_result_bytes_are_known_before_computing(body: str, initializers: str, expected: int | None) -> None:
    node, tensors = _node(body, initializers)
    assert result_bytes(node, tensors, {"": 24}) == expected


def test_sizes_that_no_inference_knows_are_unknown() -> None:
    node, _ = _node("y = Relu (x)")
    node.domain = "far.away"
    assert result_bytes(node, [ir.tensor([1.0])], {"far.away": 1}) is None


def test_a_malformed_node_has_an_unknown_size() -> None:
    node, tensors = _node("y = Concat <axis = 5> (a, a)", "float[4] a = {0,1,2,3}")
    assert result_bytes(node, tensors, {"": 24}) is None


def test_isolating_leaves_the_node_where_it_is_and_optional_parts_out() -> None:
    model = from_text(HEADER + 'g (float[2] x) => (float[2] y) <float a = {0}> { y = Clip (x, "", a) }')
    node = model.graph.node(0)
    alone = isolate(node, [ir.tensor([1.0]), None, ir.tensor(1.0)], model.opset_imports)
    assert [value.name for value in alone.graph.inputs] == ["input_0", "input_2"]
    assert alone.graph.node(0).inputs[1] is None
    assert node.graph is model.graph
    verify(model, after="isolating")


def test_operators_that_onnx_calls_non_deterministic_are_known() -> None:
    # Control flow is never compared, and AffineGrid computes the same each time.
    exempt = {"AffineGrid", "If", "Loop", "Scan", "SequenceMap"}
    listed = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain == "" and str(schema.node_determinism).endswith(".NonDeterministic")
    }
    assert "RandomNormal" in listed
    for name in listed - exempt:
        assert why_not_deterministic(ir.Node("", name, [])) == f"{name} is random"
    assert why_not_deterministic(ir.Node("", "Relu", [])) is None
    assert "domain 'com.acme'" in str(why_not_deterministic(ir.Node("com.acme", "Relu", [])))


def test_dtype_without_numpy_counts_its_bits() -> None:
    node, _ = _node("y = Relu (x)")
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.INT4), ir.Shape([3])
    assert result_bytes(node, [ir.Tensor(np.zeros(3, np.float32))], {"": 24}) == 2
