from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from access import CountingTensor

from aotc.ir.text import from_text, to_text

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
MODEL = HEADER + (
    "g (float[N,2] x) => (float[N,2] y) <float[2] b = {1,-0.0}, float[2] a = {0.1,nan}> "
    "{ s = Add (x, a) y = Mul (s, b) }"
)


def test_round_trip_is_exact() -> None:
    text = to_text(from_text(MODEL))
    assert to_text(from_text(text)) == text
    value = from_text(text).graph.initializers["b"].const_value
    assert value is not None
    assert np.signbit(value.numpy()).tolist() == [False, True]


def test_the_order_of_initialisers_does_not_matter() -> None:
    swapped = MODEL.replace(
        "float[2] b = {1,-0.0}, float[2] a = {0.1,nan}", "float[2] a = {0.1,nan}, float[2] b = {1,-0.0}"
    )
    assert swapped != MODEL
    assert to_text(from_text(swapped)) == to_text(from_text(MODEL))


def test_the_model_itself_is_not_changed() -> None:
    model = from_text(MODEL)
    to_text(model, max_elements=0)
    assert list(model.graph.initializers) == ["b", "a"]
    assert all(isinstance(v.const_value, ir.TensorProtoTensor) for v in model.graph.initializers.values())


def _with_weight(tensor: ir.TensorProtocol) -> ir.Model:
    model = from_text(MODEL)
    model.graph.initializers["a"].const_value = tensor
    model.graph.initializers["a"].shape = ir.Shape(tensor.shape.numpy())
    return model


def test_large_tensors_are_left_out_unread() -> None:
    tensor = CountingTensor(np.ones((65,), np.float32), "a")
    text = to_text(_with_weight(tensor))
    assert 'float[65] a = ["location": "omitted"]' in text
    assert tensor.reads == 0
    assert to_text(from_text(text)) == text


def test_tensors_of_64_elements_are_shown_and_the_limit_can_be_set() -> None:
    model = _with_weight(ir.Tensor(np.full((64,), 7, np.float32), name="a"))
    assert "7,7" in to_text(model)
    assert "7,7" not in to_text(model, max_elements=63)


def test_values_do_not_depend_on_where_a_tensor_is_stored(tmp_path: object) -> None:
    model = from_text(MODEL)
    path = f"{tmp_path}/model.onnx"
    ir.save(model, path, external_data="weights.bin", size_threshold_bytes=0)
    stored = ir.load(path)
    assert isinstance(stored.graph.initializers["a"].const_value, ir.ExternalTensor)
    assert to_text(stored) == to_text(from_text(MODEL))


def test_large_constants_in_nodes_and_branches_are_left_out() -> None:
    numbers = ",".join("1" * 70)
    body = (
        "g (float[70] x, bool c) => (float[70] y) { k = Constant <value = float[70] {#}> () y = If (c) <"
        "then_branch = t () => (float[70] u) <float[70] w = {#}> { u = Add (k, w) },"
        "else_branch = e () => (float[70] v) { v = Add (x, k) }> }"
    )
    text = to_text(from_text(HEADER + body.replace("#", numbers)))
    assert text.count("omitted") == 2
    assert "1,1" not in text


@pytest.mark.parametrize("change", ["Sub (x, a)", "Add (a, x)", "Add (x, b)"])
def test_different_graphs_have_different_text(change: str) -> None:
    assert to_text(from_text(MODEL.replace("Add (x, a)", change))) != to_text(from_text(MODEL))
