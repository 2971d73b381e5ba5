from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest

from aotc.errors import InternalError
from aotc.ir.text import from_text
from aotc.ir.verify import faults_of, verify

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
IF = HEADER + (
    "g (float[2] x, bool c) => (float[2] y) <float[2] w = {1,2}> { a = Add (x, w) y = If (c) <"
    "then_branch = t () => (float[2] u) { b = Neg (a) u = Relu (b) },"
    "else_branch = e () => (float[2] v) { b = Abs (a) v = Relu (b) }> }"
)


def _then(model: ir.Model) -> ir.Graph:
    return model.graph.node(1).attributes["then_branch"].as_graph()


def test_a_good_graph_has_no_faults_even_with_equal_names_in_two_branches() -> None:
    assert list(faults_of(from_text(IF))) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "g (float[2] x) => (float[2] y) { y = Relu (a) a = Neg (x) }",
            "Relu '' reads 'a' before it is defined",
        ),
        ("g (float[2] x) => (float[2] x) { y = Relu (x) }", "'x' is both input and output"),
        ("g (float[2] x) => (float[2] y, float[2] y) { y = Relu (x) }", "two outputs share a name"),
        ("g (x) => (float[2] y) { y = Relu (x) }", "the input 'x' has no dtype or shape"),
        ("g (float[2] x) => (float[2] y) { y = far.away.Op (x) }", "domain 'far.away' has no opset import"),
    ],
)
def test_faults_of_text(text: str, fault: str) -> None:
    assert fault in list(faults_of(from_text(HEADER + text)))


def test_a_name_defined_twice() -> None:
    model = from_text(IF)
    model.graph.node(1).outputs[0].name = "a"
    assert "the value name 'a' is defined twice" in list(faults_of(model))


def test_a_name_in_a_branch_that_hides_one_outside_even_one_defined_later() -> None:
    model = from_text(IF)
    _then(model).node(0).outputs[0].name = "y"
    assert list(faults_of(model)) == ["the value name 'y' hides a value of an outer graph"]


def test_an_output_that_another_graph_computes() -> None:
    model = from_text(IF)
    branch, alien = _then(model), ir.Value(name="alien")
    branch.outputs[0] = alien
    assert "the output 'alien' is not computed in its graph" in list(faults_of(model))


def test_a_constant_that_is_not_what_it_is_declared_to_be() -> None:
    model = from_text(IF)
    value = model.graph.initializers["w"]
    value.const_value = ir.Tensor(np.zeros(2, np.float64), name="w")
    assert list(faults_of(model)) == ["the initialiser 'w' is declared FLOAT and holds DOUBLE"]
    value.const_value = ir.Tensor(np.zeros(3, np.float32), name="w")
    assert list(faults_of(model)) == ["the initialiser 'w' is declared [2] and holds [3]"]
    value.const_value = None
    assert list(faults_of(model)) == ["the initialiser 'w' has no value"]


def test_a_removed_node_that_still_counts_as_a_user() -> None:
    model = from_text(
        IF.replace("=> (float[2] y)", "=> (float[2] z)").replace("y = If", "z = Neg (a) y = If")
    )
    assert list(faults_of(model)) == []
    # What onnx_ir itself does: the captures of the branches stay behind.
    model.graph.remove(model.graph.node(2), safe=True)
    assert list(faults_of(model)) == ["'a' is used by a node that is in no graph"]


def test_the_message_names_the_pass_and_counts_what_it_does_not_show() -> None:
    text = HEADER + "g (a) => (b) { c = x.Op (a) d = y.Op (e) b = z.Op (f) }"
    with pytest.raises(
        InternalError, match=r"^invalid graph after bad-pass\{k=1\}: .*\(and \d+ more\)$"
    ) as info:
        verify(from_text(text), after="bad-pass{k=1}")
    assert not re.search(r"0x[0-9a-f]{6}", str(info.value))
