"""Refusals of graphs that no runtime runs, so that they can't be golden cases."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from aotc_passes.optimise import FoldBatchNorm

from aotc.ir.text import from_text
from aotc.oracle import Oracle
from aotc.rewrite import Context

MODEL = """<ir_version: 10, opset_import: ["" : 24]>
g (float[N,2,4] x) => (float[N,2,4] y)
<float[2,2,1] w = {1,2,3,4}, float[2] s = {1,2}, float[2] t = {1,2}, float[2] m = {1,2}, float[2] v = {1,2}>
{ c = Conv (x, w) y = BatchNormalization (c, s, t, m, v) }"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("float[2] s = {1,2}", "float[1] s = {1}", "the scale 's' does not have 2 elements"),
        ("float[2] v = {1,2}", "float[1,2] v = {1,2}", "the variance 'v' does not have 2 elements"),
        ("(c, s", "<spatial = 0> (c, s", "its attribute 'spatial' is not known"),
        ("y = Batch", "y, rm = Batch", "its output 'rm' is computed too, as in training"),
        ("float[2,2,1] w", "bfloat16[2,2,1] w", "the weight 'w' is BFLOAT16"),
        (
            "float[2] v = {1,2}",
            "float[2] v = {1,-2}",
            "the weight 'w' or a bias would not be finite in float32",
        ),
        ("Conv (x, w)", "far.away.Conv (x, w)", "its input 'c' comes from Conv, not from a convolution"),
    ],
)
def test_refused(old: str, new: str, reason: str) -> None:
    assert MODEL.count(old) == 1
    result = FoldBatchNorm().run(from_text(MODEL.replace(old, new)), Context(oracle=Oracle()))
    assert [refusal.reason for refusal in result.refusals] == [reason]
    assert not result.modified
    assert "BatchNormalization 'y'" in result.refusals[0].where


def test_an_outer_initialiser_without_a_value_is_not_a_constant() -> None:
    model = from_text(MODEL)
    model.graph.initializers["m"].const_value = None
    result = FoldBatchNorm().run(model, Context(oracle=Oracle()))
    assert [refusal.reason for refusal in result.refusals] == ["the mean 'm' is not a constant"]
    assert isinstance(model.graph.initializers["w"].const_value, ir.TensorProtoTensor)
