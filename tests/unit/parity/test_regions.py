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

from aotc.errors import InternalError
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


BRANCHES = (
    HEADER
    + """g (float[N, 4] x, bool c) => (float[N, 4] y, float[N, 4] z)
{
  r = Relu (x)
  y, z = If (c) <
    then_branch = t () => (float[N, 4] ta, float[N, 4] tb) { ta = Neg (r) tb = Exp (r) },
    else_branch = e () => (float[N, 4] ea, float[N, 4] eb) { ea = Abs (x) eb = Sin (r) }
  >
}"""
)
HELD = HEADER + "g (float[N, 4] x) => (float[N, 4] y, float[2] w) <float[2] w = {1,2}> { y = Relu (x) }"
CONSTANT = (
    HEADER
    + """g (float[4, 4] x) => (float[4, 4] y)
{
  k = Constant <value = float[4, 1] {1,2,3,4}> ()
  y = Mul (x, k)
}"""
)


def in_branch(edit: Callable[[ir.Graph], None]) -> Edit:
    def outer(model: ir.Model) -> None:
        edit(node(model, "y").attributes["then_branch"].as_graph())

    return outer


def results_swapped(graph: ir.Graph) -> None:
    results = list(graph.outputs)
    graph.outputs.clear()
    graph.outputs.extend(reversed(results))


def operators_swapped(graph: ir.Graph) -> None:
    first, second = graph
    first.op_type, second.op_type = second.op_type, first.op_type


def constant_as_row(model: ir.Model) -> None:
    found = node(model, "k")
    row = ir.tensor(found.attributes["value"].as_tensor().numpy().reshape(1, 4))
    found.attributes["value"] = ir.AttrTensor("value", row)
    found.outputs[0].shape = ir.Shape([1, 4])
    found.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)


HIDDEN: dict[str, tuple[str, Edit]] = {
    "results of a branch swapped": (BRANCHES, in_branch(results_swapped)),
    "operators of a branch swapped": (BRANCHES, in_branch(operators_swapped)),
    "a weight that is only an output": (HELD, scaled("w", 2)),
    "the shape of a constant": (CONSTANT, constant_as_row),
}


@pytest.mark.parametrize(("text", "edit"), HIDDEN.values(), ids=HIDDEN)
def test_what_a_graph_says_beside_its_nodes_and_names(text: str, edit: Edit) -> None:
    model, refusals, _ = run(text, edit)
    assert refusals
    before = from_text(text)
    for feeds in samples(before).values():
        expected, got = ORACLE.run(before, feeds), ORACLE.run(model, feeds)
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array)


def twice(right: Callable[[ir.Model, str, bool], None]) -> Edit:
    """The same rewrite at two places; the second time its two results are taken for each other."""

    def edit(model: ir.Model) -> None:
        right(model, "1", False)
        right(model, "2", True)

    return edit


def as_difference(model: ir.Model, layer: str, swapped: bool) -> None:
    """Right: x is relu(x) - relu(-x)."""
    found = node(model, f"y{layer}")
    steps: list[ir.Node] = [ir.node("Relu", [found.inputs[0]]), ir.node("Neg", [found.inputs[0]])]
    steps.append(ir.node("Relu", [steps[1].outputs[0]]))
    for index, step in enumerate(steps):
        step.outputs[0].name = f"step{index}{layer}"
        model.graph.insert_before(found, step)
    found.op_type = "Sub"
    found.resize_inputs(2)
    order = (steps[2], steps[0]) if swapped else (steps[0], steps[2])
    for index, step in enumerate(order):
        found.replace_input_with(index, step.outputs[0])


def as_one_product(model: ir.Model, layer: str, swapped: bool) -> None:
    """Right: (x a) b is x (a b)."""
    found, first = node(model, f"y{layer}"), node(model, f"x{layer}")
    weights = [model.graph.initializers[name] for name in ("a", "b")]
    product = ir.node("MatMul", reversed(weights) if swapped else weights)
    product.outputs[0].name = f"ab{layer}"
    model.graph.insert_before(found, product)
    found.replace_input_with(0, first.inputs[0])
    found.replace_input_with(1, product.outputs[0])
    model.graph.remove(first, safe=True)


def _large(factor: int) -> str:
    return ",".join(str(index * factor % 7) for index in range(40 * 40))


TWICE: dict[str, tuple[str, Edit]] = {
    "steps": (
        HEADER
        + "g (float[N, 4] x) => (float[N, 4] y1, float[N, 4] y2) { y1 = Identity (x) y2 = Identity (x) }",
        twice(as_difference),
    ),
    "large weights": (
        HEADER
        + f"""g (float[N, 40] x) => (float[N, 40] y1, float[N, 40] y2)
<float[40, 40] a = {{{_large(1)}}}, float[40, 40] b = {{{_large(3)}}}>
{{
  x1 = MatMul (x, a)
  y1 = MatMul (x1, b)
  x2 = MatMul (x, a)
  y2 = MatMul (x2, b)
}}""",
        twice(as_one_product),
    ),
}


@pytest.mark.parametrize(("text", "edit"), TWICE.values(), ids=TWICE)
def test_a_right_rewrite_does_not_vouch_for_one_whose_values_are_swapped(text: str, edit: Edit) -> None:
    _, refusals, _ = run(text, edit)
    assert [refusal.reason.partition("'")[2].partition("'")[0] for refusal in refusals] == ["y2"]


def test_what_cannot_be_put_back_alone_is_put_back_with_the_rest() -> None:
    """The pass computes ``a`` from ``b``, rightly, and ``b`` wrongly; ``b`` was computed from ``a``."""
    text = (
        HEADER
        + """g (float[N, 4] x) => (float[4, N] b, float[N, 4] a)
{
  a = Relu (x)
  b = Transpose <perm = [1, 0]> (a)
}"""
    )

    def edit(model: ir.Model) -> None:
        a, b = node(model, "a"), node(model, "b")
        a.op_type, b.op_type = "Transpose", "Tanh"
        a.attributes["perm"] = b.attributes.pop("perm")
        turned = ir.node("Transpose", [a.inputs[0]], {"perm": [1, 0]})
        turned.outputs[0].name = "turned"
        b.replace_input_with(0, turned.outputs[0])
        a.replace_input_with(0, b.outputs[0])
        model.graph.insert_before(a, turned)
        model.graph.sort()

    model, refusals, _ = run(text, edit)
    assert "and was put back too" in refusals[-1].reason
    assert [each.op_type for each in model.graph] == ["Relu", "Transpose"]


@pytest.mark.parametrize("edit", ["order", "names", "one less"])
def test_a_pass_that_changes_the_interface_is_a_bug(edit: str) -> None:
    def change(model: ir.Model) -> None:
        outputs = list(model.graph.outputs)
        match edit:
            case "order":
                model.graph.outputs[:] = reversed(outputs)
            case "names":
                outputs[0].name = "another"
            case "one less":
                model.graph.outputs.pop()

    with pytest.raises(InternalError, match="changed the inputs or outputs of the graph"):
        run(BRANCHES, change)


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
    for region in changed_regions(before, model):
        restore(model, before, [region])
    verify(model, after="restoring")
    for feeds in samples(before).values():
        expected, got = ORACLE.run(before, feeds), ORACLE.run(model, feeds)
        for name, array in expected.items():
            assert_close(got[name], array, rtol=1e-6, atol=1e-6)
