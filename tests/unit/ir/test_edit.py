from __future__ import annotations

import onnx_ir as ir

from aotc.ir.edit import Names, discard_dead_initializers, is_dead, remove, take_over
from aotc.ir.text import from_text
from aotc.ir.verify import verify
from aotc.ir.walk import graphs

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
NESTED = HEADER + (
    "g (float[2] x, bool c) => (float[2] y) <float[2] w = {1,2}, float[2] idle = {1,2}>"
    "{ a = Add (x, w) y = If (c) <"
    "then_branch = t () => (float[2] u) { u = If (c) <"
    "   then_branch = t2 () => (float[2] u2) <float[2] k = {3,4}> { u2 = Add (a, k) },"
    "   else_branch = e2 () => (float[2] v2) { v2 = Abs (w) }> },"
    "else_branch = e () => (float[2] v) { v = Abs (a) }> }"
)


def test_graphs_come_outer_before_inner() -> None:
    assert [graph.name for graph in graphs(from_text(NESTED))] == ["g", "t", "e", "t2", "e2"]


def test_names_are_fresh_in_every_graph() -> None:
    names = Names(from_text(NESTED))
    assert [names.fresh(stem) for stem in ("k", "u2", "x", "new", "new", "k")] == [
        "k_1",
        "u2_1",
        "x_1",
        "new",
        "new_1",
        "k_2",
    ]


def test_removing_a_node_lets_go_of_what_is_captured_at_any_depth() -> None:
    model = from_text(NESTED)
    add, branch = model.graph
    model.graph.outputs.clear()
    remove(branch)
    assert is_dead(add.outputs[0])
    assert [use.node.op_type for use in model.graph.initializers["w"].uses()] == ["Add"]


def test_taking_over_moves_uses_outputs_name_and_type() -> None:
    model = from_text(
        HEADER + "g (float[2] x) => (float[N] y, float[2] z) { a = Relu (x) y = Neg (x) z = Abs (y) }"
    )
    relu, neg, absolute = model.graph
    neg.outputs[0].metadata_props["key"] = "kept"
    take_over(relu.outputs[0], neg.outputs[0])
    remove(neg)
    assert model.graph.outputs[0] is relu.outputs[0] is absolute.inputs[0]
    assert (relu.outputs[0].name, str(relu.outputs[0].shape)) == ("y", "[N]")
    assert relu.outputs[0].metadata_props["key"] == "kept"
    verify(model, after="the edit")


def test_only_dead_initialisers_are_discarded() -> None:
    model = from_text(NESTED)
    values: list[ir.Value | None] = [*model.graph.initializers.values(), None, model.graph.inputs[0]]
    assert discard_dead_initializers(values) == ["idle"]
    assert list(model.graph.initializers) == ["w"]


def test_an_initialiser_that_is_an_input_or_output_is_not_dead() -> None:
    model = from_text(
        HEADER + "g (float[2] x, float[2] d = {1,2}) => (float[2] y, float[2] w) <float[2] w = {1,2}>"
        "{ y = Neg (x) }"
    )
    assert discard_dead_initializers(model.graph.initializers.values()) == []
