"""Wrong verdicts: a raising pass refuses them itself, and where it does not, running the graph shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
from aotc_passes import PASSES
from aotc_passes.raise_ import (
    RaiseActivations,
    RaiseNormalisations,
    raise_activations,
    raise_normalisations,
)
from aotc_passes.raise_._functions import Activation
from aotc_passes.raise_._moments import Normalisation

from aotc.ir.edit import take_over
from aotc.oracle import Oracle
from aotc.parity.regions import RegionValidator
from aotc.rewrite import Checks, Context, Pass, PassResult, run_passes
from aotc.testing import Case, assert_close, load_case, parse_cases, run_case, sample_inputs

FOLDER = Path(__file__).parent / "cases"
RAISED = {
    cls: [case for case in parse_cases(FOLDER / f"{cls.name()}.txt") if case.after is not None]
    for cls in (RaiseActivations, RaiseNormalisations)
}
LAYER_NORMS = [case for case in RAISED[RaiseNormalisations] if "LayerNormalization" in str(case.after)]
SCALED = [case for case in LAYER_NORMS if "(x, w, b)" in str(case.after)]
GELUS = [
    case for case in RAISED[RaiseActivations] if "= Gelu" in str(case.after) and "float16" not in case.before
]
QUICK = [case for case in RAISED[RaiseActivations] if "alpha: float = 1.702" in str(case.after)]


def _in_place_of(node: ir.Node, op_type: str, inputs: list[Any], attributes: list[ir.Attr]) -> None:
    new = ir.Node("", op_type, inputs, attributes, num_outputs=1)
    assert node.graph is not None
    node.graph.insert_before(node, [new])
    take_over(new.outputs[0], node.outputs[0])
    node.graph.remove(node, safe=True)


def _other_epsilon(node: ir.Node) -> None:
    node.attributes["epsilon"] = ir.AttrFloat32("epsilon", 0.1)


def _without_mean(node: ir.Node) -> None:
    _in_place_of(node, "RMSNormalization", list(node.inputs[:2]), list(node.attributes.values()))


def _without_bias(node: ir.Node) -> None:
    node.resize_inputs(2)


def _swapped(node: ir.Node) -> None:
    x, scale, bias = node.inputs
    _in_place_of(node, node.op_type, [x, bias, scale], list(node.attributes.values()))


def _other_axis(node: ir.Node) -> None:
    node.attributes["axis"] = ir.AttrInt64("axis", -2)


def _scaled_twice(node: ir.Node) -> None:
    assert node.graph is not None
    after = ir.Node("", "Mul", [node.outputs[0], node.inputs[1]], num_outputs=1)
    node.graph.insert_after(node, [after])
    result, name = node.outputs[0], node.outputs[0].name
    result.replace_all_uses_with(after.outputs[0], replace_graph_outputs=True)
    after.replace_input_with(0, result)
    after.outputs[0].name, result.name = name, f"{name}_once"
    after.outputs[0].type, after.outputs[0].shape = result.type, result.shape


def _other_gelu(node: ir.Node) -> None:
    if node.attributes.pop("approximate", None) is None:
        node.attributes["approximate"] = ir.AttrString("approximate", "tanh")


def _other_alpha(node: ir.Node) -> None:
    node.attributes["alpha"] = ir.AttrFloat32("alpha", 1.7)


@dataclasses.dataclass(frozen=True)
class Sabotaged(Pass):
    """Do what the right pass does, and one thing wrong."""

    right: Pass
    wrong: Callable[[ir.Node], None]

    def run(self, model: ir.Model, context: Context) -> PassResult:
        known = set(model.graph)
        result = self.right.run(model, context)
        for node in [node for node in model.graph if node not in known]:
            self.wrong(node)
        return result


@pytest.mark.parametrize(
    ("right", "wrong", "cases"),
    [
        (RaiseNormalisations(), _other_epsilon, SCALED),
        (RaiseNormalisations(), _without_mean, SCALED),
        (RaiseNormalisations(), _without_bias, SCALED),
        (RaiseNormalisations(), _swapped, SCALED),
        (RaiseNormalisations(), _other_axis, SCALED),
        (RaiseNormalisations(), _scaled_twice, SCALED),
        (RaiseActivations(), _other_gelu, GELUS),
        (RaiseActivations(), _other_alpha, QUICK),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_validator_puts_back_what_is_wrong(
    right: Pass, wrong: Callable[[ir.Node], None], cases: list[Case]
) -> None:
    assert cases
    for case in cases:
        model, oracle = load_case(case), Oracle(1)
        before, samples = model.clone(), {str(index): sample_inputs(model, index) for index in range(3)}
        checks = Checks(regions=RegionValidator(oracle, samples))
        (record,) = run_passes(model, [Sabotaged(right, wrong)], Context(oracle), checks=checks)
        assert any("the new form of" in refusal.reason for refusal in record.refusals), case.title
        for feeds in samples.values():
            for name, array in oracle.run(before, feeds).items():
                assert_close(oracle.run(model, feeds)[name], array, rtol=0, atol=0, name=case.title)


@pytest.mark.parametrize("case", LAYER_NORMS, ids=lambda case: case.title)
@pytest.mark.parametrize("factor", [1.1, 0.9])
def test_an_epsilon_that_is_read_wrongly_is_not_believed(
    case: Case, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = raise_normalisations.read_off

    def wrong(*args: Any) -> tuple[list[Normalisation], str]:
        found, instead = right(*args)
        return [dataclasses.replace(each, epsilon=each.epsilon * factor) for each in found], instead

    monkeypatch.setattr(raise_normalisations, "read_off", wrong)
    result = RaiseNormalisations().run(load_case(case), Context(Oracle(1)))
    assert not result.modified
    assert any("not raised to" in refusal.reason for refusal in result.refusals)


@pytest.mark.parametrize("case", RAISED[RaiseActivations], ids=lambda case: case.title)
def test_every_operator_may_be_proposed_and_only_the_right_one_is_taken(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposed = [
        Activation(name) for name in ("Relu", "Sigmoid", "Tanh", "Gelu", "Swish", "HardSwish", "Mish")
    ]
    proposed += [Activation("Gelu", (ir.AttrString("approximate", "tanh"),)), Activation("Elu")]
    monkeypatch.setattr(raise_activations, "candidates", lambda *_: proposed)
    run_case(case, PASSES)
