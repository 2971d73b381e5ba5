"""Attention of every spelling: random ones keep their function, and wrong rewrites are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from aotc_passes.raise_ import RaiseAttention
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotc.ir.text import to_text
from aotc.ir.verify import verify
from aotc.oracle import Oracle
from aotc.parity.regions import RegionValidator
from aotc.rewrite import Context
from aotc.testing import Case, assert_close, load_case, parse_cases, sample_inputs

CONTEXT = Context(Oracle(1))
CASES = parse_cases(Path(__file__).parent / "cases" / "raise-attention.txt")
SAMPLES = 6
RAISED = [case for case in CASES if case.after is not None]
HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'


def samples(model: ir.Model, case: Case) -> dict[str, dict[str, np.ndarray]]:
    dims = {key: [int(n) for n in text.split(",")] for key, text in case.settings("dims").items()}
    bounds = {key: text.split("..") for key, text in case.settings("ranges").items()}
    ranges = {key: (int(low), int(high)) for key, (low, high) in bounds.items()}
    return {str(index): sample_inputs(model, index, dims=dims, ranges=ranges) for index in range(SAMPLES)}


@pytest.mark.parametrize("case", RAISED, ids=lambda case: case.title)
def test_a_right_rewrite_is_accepted(case: Case) -> None:
    model = load_case(case)
    before = model.clone()
    assert RaiseAttention().run(model, CONTEXT).changes
    assert RegionValidator(Oracle(1), samples(before, case))(before, model) == []


def attention(model: ir.Model) -> ir.Node:
    return next(node for node in model.graph.all_nodes() if node.op_type == "Attention")


def scaled(node: ir.Node) -> bool:
    node.attributes["scale"] = ir.AttrFloat32("scale", node.attributes.get_float("scale", 1.0) * 1.02)
    return True


def scaled_twice(node: ir.Node) -> bool:
    scale = node.attributes.get_float("scale", 1.0)
    node.attributes["scale"] = ir.AttrFloat32("scale", scale * scale)
    return scale != 1


def other_causality(node: ir.Node) -> bool:
    causal = node.attributes.get_int("is_causal", 0)
    node.attributes["is_causal"] = ir.AttrInt64("is_causal", 1 - causal)
    return bool(causal) or len(node.inputs) == 3  # a mask may be causal itself


def without_mask(node: ir.Node) -> bool:
    had = len(node.inputs) > 3
    node.resize_inputs(3)
    return had


def without_softcap(node: ir.Node) -> bool:
    return node.attributes.pop("softcap", None) is not None


def keys_as_values(node: ir.Node) -> bool:
    keys, values = node.inputs[1:3]
    if keys is values or keys.shape != values.shape:
        return False
    node.replace_input_with(1, values)
    node.replace_input_with(2, keys)
    return True


def shifted_mask(node: ir.Node) -> bool:
    """Each key gets the mask of the key before it."""
    if len(node.inputs) <= 3:
        return False
    mask = node.inputs[3]
    last = ir.node("Constant", [], {"value_ints": [-1]})
    first = ir.node("Constant", [], {"value_ints": [0]})
    most = ir.node("Constant", [], {"value_ints": [2**62]})
    minus = ir.node("Constant", [], {"value_ints": [-1]})
    parts = [
        ir.node("Slice", [mask, a.outputs[0], b.outputs[0], minus.outputs[0]])
        for a, b in ((last, most), (first, last))
    ]
    joined = ir.node("Concat", [part.outputs[0] for part in parts], {"axis": -1})
    new = [last, first, most, minus, *parts, joined]
    for index, each in enumerate(new):
        each.outputs[0].name = f"shifted_{index}"
    joined.outputs[0].type, joined.outputs[0].shape = mask.type, mask.shape
    node.graph.insert_before(node, new)
    node.replace_input_with(3, joined.outputs[0])
    return True


def heads_in_turn(node: ir.Node) -> bool:
    """Grouped heads as tiles: query head i gets key head i modulo the number of key heads."""
    heads = [value.shape[1] for value in node.inputs[:3]]
    if not all(isinstance(count, int) for count in heads) or heads[1] == heads[0] or heads[1] == 1:
        return False
    order = ir.node("Constant", [], {"value_ints": [i % heads[1] for i in range(heads[0])]})
    taken = [ir.node("Gather", [value, order.outputs[0]], {"axis": 1}) for value in node.inputs[1:3]]
    for index, each in enumerate([order, *taken]):
        each.outputs[0].name = f"turn_{index}"
    node.graph.insert_before(node, [order, *taken])
    for index, each in enumerate(taken):
        node.replace_input_with(1 + index, each.outputs[0])
    return True


SABOTAGE: list[Callable[[ir.Node], bool]] = [
    scaled,
    scaled_twice,
    other_causality,
    without_mask,
    without_softcap,
    keys_as_values,
    shifted_mask,
    heads_in_turn,
]


def test_wrong_rewrites_are_refused(record_property: Callable[[str, object], None]) -> None:
    tried, missed = 0, []
    for case in RAISED:
        for wrong in SABOTAGE:
            model = load_case(case)
            before = model.clone()
            RaiseAttention().run(model, CONTEXT)
            if not wrong(attention(model)):
                continue
            tried += 1
            if not RegionValidator(Oracle(1), samples(before, case))(before, model):
                missed.append(f"{case.title}: {wrong.__name__}")
    record_property("wrong rewrites refused", f"{tried - len(missed)} of {tried}")
    assert missed == [], "\n".join(missed)
    assert tried > 100


@dataclasses.dataclass(frozen=True)
class Spelling:
    """How one attention is written down."""

    batch: int
    scale: str
    masks: tuple[str, ...]
    softcap: bool
    repeated: bool
    output: str

    def text(self) -> str:
        lead = ["B", "4"][2 - self.batch :]
        few = [*lead[:-1], "2"] if self.repeated else lead
        inputs = [_info([*lead, "N", "4"], "q"), _info([*few, "M", "4"], "k0"), _info([*few, "M", "4"], "v0")]
        lines, k, v, q = [], "k0", "v0", "q"
        if self.repeated:
            lines += [f"{x} = Gather <axis = {self.batch - 1}> ({x}0, pick)" for x in "kv"]
            k, v = "k", "v"
        if self.scale in ("queries", "both"):
            lines, q = [*lines, "qs = Mul (q, c)"], "qs"
        if self.scale in ("keys", "both"):
            lines, k = [*lines, f"ks = Div ({k}, c)"], "ks"
        perm = [*range(self.batch), self.batch + 1, self.batch]
        lines += [f"kt = Transpose <perm = {perm}> ({k})", f"a = MatMul ({q}, kt)"]
        scores = "a"
        if self.scale == "scores":
            lines, scores = [*lines, "b = Mul (c, a)"], "b"
        if self.softcap:
            lines += [f"s0 = Div ({scores}, cap)", "s1 = Tanh (s0)", "s2 = Mul (s1, cap)"]
            scores = "s2"
        for index, mask in enumerate(self.masks):
            name, new = f"m{index}", f"x{index}"
            inputs.append({"bias": "float[N,M] ", "row": "bool[1,M] "}.get(mask, "bool[N,M] ") + name)
            lines.append(f"{new} = {MASKS[mask].format(mask=name, scores=scores)}")
            scores = new
        lines += [f"w = Softmax <axis = -1> ({scores})", f"y = MatMul (w, {v})"]
        outputs = [_info([*lead, "N", "4"], "y")]
        if self.output:
            outputs.append(_info([*lead, "4" if self.output == "kt" else "N", "M"], self.output))
        graph = f"g ({', '.join(inputs)}) => ({', '.join(outputs)})"
        return "\n".join([HEADER + graph, CONSTANTS, "{", *lines, "}"])


MASKS = {
    "bias": "Add ({mask}, {scores})",
    "closed": "Where ({mask}, {scores}, closed)",
    "low": "Where ({mask}, {scores}, low)",
    "row": "Where ({mask}, low, {scores})",
}
CONSTANTS = """<float c = {0.7}, float cap = {3.0}, float low = {-3.4028235e38}, float closed = {-inf},
int64[4] pick = {0,0,1,1}>"""


def _info(dims: list[str], name: str) -> str:
    return f"float[{','.join(dims)}] {name}"


SPELLINGS = st.builds(
    Spelling,
    batch=st.integers(0, 2),
    scale=st.sampled_from(["", "queries", "keys", "both", "scores"]),
    masks=st.lists(st.sampled_from(["bias", "closed", "low", "row"]), max_size=3).map(tuple),
    softcap=st.booleans(),
    repeated=st.booleans(),
    output=st.sampled_from(["", "", "", "w", "a", "kt"]),
).filter(lambda spelling: spelling.batch > 0 or not spelling.repeated)


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(spelling=SPELLINGS)
def test_random_spellings_keep_their_function(spelling: Spelling) -> None:
    header = {"rtol": "0", "atol": "0", "shapes": "inferred", "dims": "B=1,2,3; N=1,5,4; M=3,1,6"}
    case = Case("raise-attention", "random", header, spelling.text(), None)
    model = load_case(case)
    before, interface = model.clone(), [str(v) for v in (*model.graph.inputs, *model.graph.outputs)]
    result = RaiseAttention().run(model, CONTEXT)
    verify(model, after="raise-attention")
    assert [str(v) for v in (*model.graph.inputs, *model.graph.outputs)] == interface
    blocked = spelling.output in ("w", "a")
    assert bool(result.changes) != bool(result.refusals)
    assert not (blocked and result.changes)
    for feeds in samples(before, case).values():
        expected, got = CONTEXT.oracle.run(before, feeds), CONTEXT.oracle.run(model, feeds)
        for name, array in expected.items():
            assert_close(got[name], array, rtol=1e-5, atol=1e-5, name=name)
    text = to_text(model, max_elements=1 << 20)
    assert RaiseAttention().run(model, CONTEXT).changes == ()
    assert to_text(model, max_elements=1 << 20) == text
