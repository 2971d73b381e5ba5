"""Region validation: right rewrites pass, wrong ones are put back, on random graphs and by sabotage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from aotc_passes.optimise import PASSES, FoldBatchNorm, FoldConstants, ShareDuplicates
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import models

from aotc.ir.text import from_text, to_text
from aotc.ir.verify import verify
from aotc.oracle import Oracle
from aotc.parity.regions import RegionValidator
from aotc.rewrite import Checks, Context, Pass, PassResult, run_passes
from aotc.rewrite.regions import changed_regions, restore
from aotc.testing import assert_close, sample_inputs

ORACLE = Oracle(1)
CONTEXT = Context(ORACLE)
HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
LAYERS = (
    HEADER
    + """g (float[N, 4] x) => (float[N, 4] y)
<float[4, 4] w1 = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16},
 float[4, 4] w2 = {1,0,0,-1,0,-1,0,0,1,0,1,0,0,0,0,-1}>
{
  a = MatMul (x, w1)
  b = Relu (a)
  c = Sub (b, a)
  d = MatMul (c, w2)
  e = Relu (d)
  y = Sub (e, d)
}"""
)
PROPERTY = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
Edit = Callable[[ir.Model], None]


def samples(model: ir.Model) -> dict[str, dict[str, Any]]:
    return {f"sample {index}": sample_inputs(model, index) for index in range(3)}


@dataclasses.dataclass(frozen=True)
class Edited(Pass):
    """Whatever ``edit`` does."""

    edit: Edit

    def run(self, model: ir.Model, context: Context) -> PassResult:
        self.edit(model)
        return PassResult(("edited",))


def run(text: str, *edits: Edit) -> tuple[ir.Model, list[Any], RegionValidator]:
    model = from_text(text)
    validator = RegionValidator(ORACLE, samples(model))
    records = run_passes(model, [Edited(edit) for edit in edits], CONTEXT, checks=Checks(regions=validator))
    return model, [refusal for record in records for refusal in record.refusals], validator


def node(model: ir.Model, value: str) -> ir.Node:
    return next(each for each in model.graph if each.outputs[0].name == value)


def swap(value: str) -> Edit:
    def edit(model: ir.Model) -> None:
        found = node(model, value)
        first, second = found.inputs
        found.replace_input_with(0, second)
        found.replace_input_with(1, first)

    return edit


def renamed(value: str, op: str) -> Edit:
    def edit(model: ir.Model) -> None:
        node(model, value).op_type = op

    return edit


def scaled(name: str, factor: float) -> Edit:
    def edit(model: ir.Model) -> None:
        weight = model.graph.initializers[name]
        assert weight.const_value is not None
        weight.const_value = ir.tensor(weight.const_value.numpy() * np.float32(factor), name=name)

    return edit


def as_scaled_relu(model: ir.Model) -> None:
    """Right: relu(a) - a is relu(-a)."""
    target = node(model, "c")
    minus = ir.node("Neg", [node(model, "a").outputs[0]])
    minus.outputs[0].name = "minus"
    model.graph.insert_before(target, minus)
    target.op_type = "Relu"
    target.resize_inputs(1)
    target.replace_input_with(0, minus.outputs[0])


SABOTAGE: dict[str, Edit] = {
    "operands swapped": swap("c"),
    "another activation": renamed("e", "Tanh"),
    "an activation lost": renamed("b", "Identity"),
    "a weight scaled": scaled("w1", 1.001),
    "another operator": renamed("y", "Add"),
    "both of two": lambda model: (swap("c")(model), swap("y")(model))[0],
}


@pytest.mark.parametrize("edit", SABOTAGE.values(), ids=SABOTAGE)
def test_a_wrong_rewrite_is_put_back_with_the_figures(edit: Edit) -> None:
    model, refusals, _ = run(LAYERS, edit)
    before = from_text(LAYERS)
    assert refusals
    assert all("the new form of '" in refusal.reason for refusal in refusals)
    assert all(refusal.reason.endswith(")") and "sample " in refusal.reason for refusal in refusals)
    for feeds in samples(before).values():
        expected, got = ORACLE.run(before, feeds), ORACLE.run(model, feeds)
        assert_close(got["y"], expected["y"], rtol=0, atol=0)


def test_a_right_rewrite_stays() -> None:
    model, refusals, validator = run(LAYERS, as_scaled_relu)
    assert refusals == []
    assert node(model, "c").op_type == "Relu"
    assert validator.runs == 3


def test_only_the_wrong_one_of_two_is_put_back() -> None:
    def both(model: ir.Model) -> None:
        as_scaled_relu(model)
        swap("y")(model)

    model, refusals, _ = run(LAYERS, both)
    assert [refusal.reason.partition("'")[2].partition("'")[0] for refusal in refusals] == ["y"]
    assert node(model, "c").op_type == "Relu"
    assert [value.name for value in node(model, "y").inputs if value] == ["e", "d"]


def test_equal_regions_are_run_once() -> None:
    """The same rewrite in two layers that differ in names only; what a pass made of constants runs always."""

    def negated(model: ir.Model) -> None:
        for value in ("c", "y"):  # b - a is -(a - b)
            found = node(model, value)
            back = ir.node("Sub", [found.inputs[1], found.inputs[0]])
            back.outputs[0].name = f"back_{value}"
            model.graph.insert_before(found, back)
            found.op_type = "Neg"
            found.resize_inputs(1)
            found.replace_input_with(0, back.outputs[0])

    _, refusals, validator = run(LAYERS, negated)
    assert (refusals, validator.runs) == ([], 3)
    _, refusals, validator = run(
        LAYERS, lambda model: (scaled("w1", 1.0)(model), scaled("w2", 1.0)(model))[0]
    )
    assert (refusals, validator.runs) == ([], 6)


def test_a_region_begins_at_values_that_both_graphs_have() -> None:
    before, after = from_text(LAYERS), from_text(LAYERS)
    as_scaled_relu(after)
    for name, value in after.graph.initializers.items():
        value.const_value = before.graph.initializers[name].const_value
    (region,) = changed_regions(before, after)
    assert (region.value, region.inputs) == ("c", ("a", "b"))
    assert [each.op_type for each in region.old] == ["Sub"]
    assert [each.op_type for each in region.new] == ["Neg", "Relu"]


def test_without_inputs_that_run_nothing_is_believed() -> None:
    model = from_text(LAYERS)
    validator = RegionValidator(ORACLE, {"bad": {"x": np.ones((2, 5), np.float32)}})
    records = run_passes(model, [Edited(as_scaled_relu)], CONTEXT, checks=Checks(regions=validator))
    assert [r.reason for r in records[0].refusals] == ["no inputs are known on which the graph runs"]
    assert to_text(model) == to_text(from_text(LAYERS))


@PROPERTY
@given(model=models())
def test_no_right_pass_is_refused(model: ir.Model) -> None:
    validator = RegionValidator(ORACLE, samples(model))
    records = run_passes(model, [cls() for cls in PASSES], CONTEXT, checks=Checks(regions=validator))
    reasons = [refusal.reason for record in records for refusal in record.refusals]
    assert [reason for reason in reasons if "the new form" in reason or "no inputs" in reason] == []


@PROPERTY
@given(model=models(), seed=st.integers(0, 2**16))
def test_what_is_put_back_computes_what_it_did(model: ir.Model, seed: int) -> None:
    """Every region of every pass, put back one after another."""
    before = model.clone()
    cls = [FoldConstants, FoldBatchNorm, ShareDuplicates][seed % 3]
    cls().run(model, CONTEXT)
    regions = changed_regions(before, model)
    for region in regions:
        restore(model, before, region)
    verify(model, after="restoring")
    for feeds in samples(before).values():
        expected, got = ORACLE.run(before, feeds), ORACLE.run(model, feeds)
        for name, array in expected.items():
            assert_close(got[name], array, rtol=1e-6, atol=1e-6)
