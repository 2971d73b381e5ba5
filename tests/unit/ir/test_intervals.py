"""Bounds of values hold for whatever the operators compute."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx.shape_inference
import onnx_ir as ir
import pytest

from aotc.ir.intervals import interval
from aotc.ir.text import from_text
from aotc.oracle import Oracle

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
CONSTANTS = "<float one = {1.0}, float low = {-3.4e38}, float five = {-5.5}, float[2] two = {0.5,-0.5}>"
BODIES = {
    "a limit that is not known": "c = Cast <to = 1> (b) y = Clip (c, one, f)",
    "only an upper limit": "c = Cast <to = 1> (b) y = Clip (c, , five)",
    "only a lower limit": "y = Clip (f, five)",
    "fractions are cut off": "c = Cast <to = 6> (two) y = Cast <to = 1> (c)",
    "a mask from truths": "c = Cast <to = 1> (b) d = Sub (one, c) y = Mul (d, low)",
    "two masks overflow": "m = Where (b, one, low) y = Add (m, m)",
    "integers wrap": "c = Cast <to = 3> (i) y = Cast <to = 1> (c)",
    "an input": "y = Neg (f)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_entry_is_outside(body: str) -> None:
    inputs = "bool[2] b, float f, int64 i"
    text = HEADER + f"g ({inputs}) => (float[N] y)\n{CONSTANTS}\n{{ {body} }}"
    proto = onnx.shape_inference.infer_shapes(ir.to_proto(from_text(text)))
    model = ir.from_proto(proto)
    low, high = interval(model.graph.outputs[0])
    for f in (-1e30, -7.5, 0.0, 2.0, math.inf, -math.inf):
        feeds = {"b": np.array([True, False]), "f": np.array(f, np.float32), "i": np.array(200)}
        with np.errstate(all="ignore"):
            got = Oracle(1).run(model, feeds)["y"]
        assert ((got >= low) & (got <= high)).all(), f"{got} is not in [{low}, {high}]"
