"""Groups whose mean is large beside their spread: what ONNX's definition loses there, the pass keeps."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from aotc_passes.lower_ort import StableGroupNorm

from aotc.oracle import Oracle
from aotc.rewrite import Context

TEXT = """<ir_version: 10, opset_import: ["" : 24]>
g (float[N,4,T] x) => (float[N,4,T] y)
<float[4] s = {1.0, 2.0, 0.5, -1.0}, float[4] b = {0.0, 1.0, 2.0, 3.0}>
{
   y = GroupNormalization <num_groups = 2> (x, s, b)
}
"""


def in_float64(x: np.ndarray) -> np.ndarray:
    grouped = x.astype(np.float64).reshape(len(x), 2, -1)
    centred = grouped - grouped.mean(-1, keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    return normal * np.array([1, 2, 0.5, -1])[:, None] + np.array([0, 1, 2, 3])[:, None]


@pytest.mark.parametrize("mean", [0.0, 30.0, 1000.0])
def test_the_spread_survives_the_mean(mean: float) -> None:
    x = (np.random.default_rng(0).standard_normal((3, 4, 9)) + mean).astype(np.float32)
    model, oracle = ir.from_onnx_text(TEXT), Oracle(1)
    before = np.abs(oracle.run(model, {"x": x})["y"] - in_float64(x)).max()
    StableGroupNorm().run(model, Context(oracle))
    after = np.abs(oracle.run(model, {"x": x})["y"] - in_float64(x)).max()
    assert after < 1e-6 * max(mean, 1)
    assert before > 10 * after or mean < 1000
