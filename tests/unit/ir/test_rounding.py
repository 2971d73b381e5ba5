"""Float16 made explicit: ONNX Runtime then rounds and overflows where the graph says so."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from aotc.ir.rounding import round_explicitly
from aotc.ir.text import from_text
from aotc.ir.verify import verify
from aotc.oracle import Oracle

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
ORACLE = Oracle()
HIDDEN = (
    "g (float[4] x) => (float[4] y) <float16 c = {%d}> "
    "{ h = Cast <to = 10> (x) s = %s (h, c) t = %s (s, c) y = Cast <to = 1> (t) }"
)


def rounded(text: str) -> ir.Model:
    model = from_text(HEADER + text)
    for node in model.graph:
        for value in node.outputs:
            value.type = ir.TensorType(ir.DataType.FLOAT if value.name == "y" else ir.DataType.FLOAT16)
    assert round_explicitly(model)
    verify(model, after="rounding")
    return model


@pytest.mark.parametrize(
    ("number", "there", "back", "expected"),
    [
        (2000.0, "Add", "Sub", [0.0, 1.0, 3.0, 0.0]),  # neighbours are 1 apart, ties go to even
        (60000.0, "Mul", "Div", [18.0 / 60, np.inf, np.inf, 0.0]),
    ],
)
def test_it_rounds_and_overflows(number: float, there: str, back: str, expected: list[float]) -> None:
    bits = int(np.float16(number).view(np.uint16))
    model = rounded(HIDDEN % (bits, there, back))
    x = np.float32([0.3, 1.25, 2.75, 0.0])
    got = ORACLE.run(model, {"x": x})["y"]
    with np.errstate(over="ignore"):
        s = (
            x.astype(np.float16) + np.float16(number)
            if there == "Add"
            else x.astype(np.float16) * np.float16(number)
        )
        right = s - np.float16(number) if back == "Sub" else s / np.float16(number)
    np.testing.assert_array_equal(got, right.astype(np.float32))
    np.testing.assert_allclose(got, expected, rtol=2e-3)


def test_a_graph_in_float32_is_left_alone() -> None:
    model = from_text(HEADER + "g (float[4] x) => (float[4] y) { y = Neg (x) }")
    assert not round_explicitly(model)
    assert len(model.graph) == 1


def test_inputs_outputs_and_branches_of_float16() -> None:
    model = from_text(
        HEADER + "g (bool c, float16[2] x) => (float16[2] y, int64[1] n) { h = Neg (x) n = Shape (h) "
        "y = If (c) <then_branch = t () => (float16[2] a) { a = Abs (h) }, "
        "else_branch = e () => (float16[2] b) { b = Relu (h) }> }"
    )
    for node in model.graph.all_nodes():
        for value in node.outputs:
            if value.type is None:
                value.type = ir.TensorType(ir.DataType.FLOAT16)
    before = model.clone()
    assert round_explicitly(model)
    verify(model, after="rounding")
    x = np.float16([1.5, -2.5])
    for c in (True, False):
        feeds = {"c": np.array(c), "x": x}
        right, got = ORACLE.run(before, feeds), ORACLE.run(model, feeds)
        assert got["y"].dtype == np.float16
        np.testing.assert_array_equal(got["y"], right["y"])
