"""Spellings in any surroundings: the raising passes keep the function, the interface and the rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import onnx
import onnx_ir as ir
import pytest
from aotc_passes.lower_ort import MishByExp, QuickGelu
from aotc_passes.raise_ import PASSES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotc.ir.text import to_text
from aotc.ir.verify import verify
from aotc.oracle import Oracle
from aotc.rewrite import Context, run_passes
from aotc.testing import assert_close, sample_inputs

CONTEXT = Context(oracle=Oracle(1))
RTOL, ATOL = 1e-4, 2e-4  # a normalisation of nearly equal entries makes their rounding 300 times larger
PROPERTY = settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
CONSTANTS = (
    "{t} one = {{1}}, {t} two = {{2}}, {t} half = {{0.5}}, {t} root = {{0.70710678}}, {t} c = {{0.044715}}, "
    "{t} k = {{0.79788456}}, {t} three = {{3}}, {t} six = {{6}}, {t} zero = {{0}}, {t} q = {{1.702}}, "
    "{t} eps = {{0.001}}, {t}[4] w = {{1, 0.5, 2, -1}}, {t}[4] b = {{0, 1, -1, 0.5}}, "
    "int64[1] last = {{-1}}, int64[1] mid = {{1}}, int64[2] both = {{1, 2}}"
)
_CENTRED = "m = ReduceMean ($, AXIS) d = Sub ($, m) q1 = Mul (d, d) v = ReduceMean (q1, AXIS) "
_SQUARED = "q1 = Mul ($, $) v = ReduceMean (q1, AXIS) "
CURVES = (
    "a = Mul ($, root) e = Erf (a) f = Add (e, one) h = Mul ($, half) y = Mul (h, f)",
    "p = Pow ($, three) s = Mul (p, c) t = Add ($, s) u = Mul (t, k) h = Tanh (u) a = Add (h, one) "
    "m = Mul ($, half) y = Mul (m, a)",
    "s = Sigmoid ($) y = Mul ($, s)",
    "m = Mul ($, q) s = Sigmoid (m) y = Mul (s, $)",
    "a = Add ($, three) d = Clip (a, zero, six) m = Mul ($, d) y = Div (m, six)",
    "s = Softplus ($) t = Tanh (s) y = Mul ($, t)",
    "r = Relu ($) y = Min (r, six)",
    "m = Mul ($, half) y = Max ($, m)",
)
NORMS = (
    _CENTRED + "e = Add (v, eps) r = Sqrt (e) n = Div (d, r) a = Mul (n, w) y = Add (a, b)",
    _CENTRED + "e = Add (v, eps) r = Sqrt (e) y = Div (d, r)",
    _SQUARED + "e = Add (v, eps) r = Sqrt (e) i = Reciprocal (r) n = Mul ($, i) y = Mul (n, w)",
    _SQUARED + "e = Add (v, eps) r = Sqrt (e) y = Div ($, r)",
)
SPELLINGS = (*CURVES, *NORMS, *NORMS)


def _names(text: str) -> list[str]:
    return re.findall(r"(\w+) =", text)


def _spelled(draw: Callable[[Any], Any], source: str, index: int) -> str:
    """Return one spelling over the value ``source``, its names made its own by ``index``."""
    text = draw(st.sampled_from(SPELLINGS))
    axis = draw(st.sampled_from(["last", "last", "last", "last", "mid", "both"]))
    text = re.sub(r"\b({})\b".format("|".join(_names(text))), rf"\g<1>_{index}", text)
    return text.replace("AXIS", axis).replace("$", source)


@st.composite
def models(draw: Callable[[Any], Any]) -> ir.Model:
    """Draw a model of spellings, mixed with other readers of any of their values, also in a branch."""
    kind = draw(st.sampled_from(["float", "float", "float", "double"]))
    lines, values, inner = [], ["x"], []
    for index in range(draw(st.integers(1, 3))):
        text = _spelled(draw, draw(st.sampled_from(values)), index)
        lines.append(text)
        values.append(f"y_{index}")
        inner += [f"{name}_{index}" for name in "adehmnrsv" if f"{name}_{index} =" in text]
    if draw(st.integers(0, 3)) == 0:
        extra = draw(st.sampled_from(values + inner))
        lines.append(f"z = Neg ({extra})")
        inner.append("z")
    if draw(st.booleans()):
        branch = _spelled(draw, draw(st.sampled_from(values)), 9)
        other = draw(st.sampled_from(values + inner))
        lines.append(
            f"i = If (flag) <then_branch = t () => ({kind}[N,3,4] y_9) {{ {branch} }}, "
            f"else_branch = f () => ({kind}[N,3,4] o) {{ zz = Neg ({other}) o = Add (zz, {values[0]}) }}>"
        )
        values.append("i")
    seen = values[1:] * 3 + inner
    outputs = draw(st.lists(st.sampled_from(seen), min_size=1, max_size=2, unique=True))
    given = CONSTANTS.format(t=kind)
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 24]> g ({kind}[N,3,4] x, bool flag) => ({", ".join(outputs)})'
        f"<{given}> {{ {' '.join(lines)} }}"
    )
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto, strict_mode=True))


def _interface(model: ir.Model) -> list[tuple[str | None, str, str]]:
    return [(v.name, str(v.dtype), str(v.shape)) for v in (*model.graph.inputs, *model.graph.outputs)]


def _assert_same_function(before: ir.Model, after: ir.Model) -> None:
    for index in range(2):
        feeds = sample_inputs(before, index)
        expected, actual = CONTEXT.oracle.run(before, feeds), CONTEXT.oracle.run(after, feeds)
        assert list(actual) == list(expected)
        for name, array in expected.items():
            assert_close(actual[name], array, rtol=RTOL, atol=ATOL, name=name)


@PROPERTY
@given(model=models())
def test_raising_and_lowering_keep_the_function_and_the_interface(model: ir.Model) -> None:
    before, interface = model.clone(), _interface(model)
    run_passes(model, [*(cls() for cls in PASSES), QuickGelu(), MishByExp()], CONTEXT)
    verify(model, after="the passes")
    assert _interface(model) == interface
    _assert_same_function(before, model)


@pytest.mark.parametrize("cls", PASSES, ids=lambda cls: cls.name())
@PROPERTY
@given(data=st.data())
def test_each_pass_alone_is_idempotent_and_adds_no_node(cls: type, data: st.DataObject) -> None:
    model = data.draw(models())
    before, text = model.clone(), to_text(model)
    count = len(list(model.graph.all_nodes()))
    result = cls().run(model, CONTEXT)
    verify(model, after=cls.name())
    assert result.modified == (to_text(model) != text)
    assert len(list(model.graph.all_nodes())) <= count - len(result.changes) * result.modified
    _assert_same_function(before, model)
    after = to_text(model)
    assert cls().run(model, CONTEXT).changes == ()
    assert to_text(model) == after
