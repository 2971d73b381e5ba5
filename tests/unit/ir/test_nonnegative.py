"""The proof that an index is not negative: what it accepts is so, what it cannot know it does not claim."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx.shape_inference
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from aotc.ir.nonnegative import is_nonnegative
from aotc.oracle import Oracle

HEADER = """<ir_version: 10, opset_import: ["" : 24]>
g (int64[4] a, int64[4] b, float[4] f) => (int64[n] y) {{ {} }}"""
PROGRAMS = {
    "c = Constant<value_ints = [3, 0, 2, 1]>() y = Add(a, c)": {"a"},
    "y = Sub(a, b)": None,
    "y = Mul(a, b)": {"a", "b"},
    "y = Neg(a)": None,
    "y = Abs(a)": None,
    "y = Max(a, b)": {"b"},
    "y = Min(a, b)": {"a", "b"},
    "y = Cast<to = 7>(f)": None,
    "y = Shape(a)": set(),
    "z = Constant<value_int = 0>() y = Clip(a, z)": set(),
    "c = Greater(a, b) y = Where(c, a, b)": {"a", "b"},
    "c = Greater(a, b) y = Cast<to = 7>(c)": set(),
    "z = Constant<value_int = 0>() y = CumSum(a, z)": {"a"},
    "y = Concat<axis = 0>(a, b)": {"a", "b"},
    "y = Mod(a, b)": {"a", "b"},
    "y = Identity(a)": {"a"},
}


def model(program: str) -> ir.Model:
    proto = onnx.parser.parse_model(HEADER.format(program))
    built = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(built)
    return built


@pytest.mark.parametrize(("program", "needs"), PROGRAMS.items())
def test_it_needs_just_these_inputs_to_be_checked(program: str, needs: set[str] | None) -> None:
    built = model(program)
    output = built.graph.outputs[0]
    assert is_nonnegative(output, dict.fromkeys("ab", 1000)) == (needs is not None)
    if needs is not None:
        assert is_nonnegative(output, dict.fromkeys(needs, 1000))
        assert not any(is_nonnegative(output, dict.fromkeys(needs - {name}, 1000)) for name in needs)


@pytest.mark.parametrize(
    "program",
    [
        "c = Cast<to = 6>(a) y = Cast<to = 7>(c)",  # int32 may wrap around
        "c = Cast<to = 3>(a) y = Cast<to = 7>(c)",  # int8 too
        "y = Mul(a, a)",
        "y = Add(a, b)",
        "z = Constant<value_int = 0>() y = CumSum(a, z)",
    ],
)
def test_a_sum_or_product_that_may_wrap_around_is_not_proven(program: str) -> None:
    output = model(program).graph.outputs[0]
    assert is_nonnegative(output, {"a": 100, "b": 100})
    assert not is_nonnegative(output, {"a": 2**62, "b": 2**62})


@given(st.sampled_from(sorted(PROGRAMS)), st.lists(st.integers(0, 1000), min_size=8, max_size=8))
def test_what_is_proven_is_so(program: str, numbers: list[int]) -> None:
    built = model(program)
    a, b = np.array(numbers[:4]), np.array(numbers[4:]) + ("Mod" in program)
    result = Oracle().run(built, {"a": a, "b": b, "f": np.float32(a) - np.float32(b)})["y"]
    if is_nonnegative(built.graph.outputs[0], dict.fromkeys("ab", 1000)):
        assert (result >= 0).all()
