"""The case runner notices what passes must not do."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from aotc.errors import InternalError, UsageError
from aotc.rewrite import Context, Pass, PassResult, Refusal
from aotc.testing import assert_close, check_golden, parse_cases, run_case, sample_inputs

BEFORE = """--- before
<ir_version: 10, opset_import: ["" : 24]>
g (float[N,2] x) => (float[N,2] y) { a = Relu (x) y = Neg (a) }
"""
TOLERANCES = "rtol: 1e-6\natol: 1e-6\n"


@dataclasses.dataclass(frozen=True)
class Misbehave(Pass):
    """Do what no pass may do."""

    how: str = ""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        first, last = model.graph.node(0), model.graph.node(-1)
        if self.how == "wrong":
            done, first.op_type = first.op_type == "Relu", "Tanh"
            return PassResult(("Relu -> Tanh",) if done else ())
        if self.how == "silent":
            first.op_type = "Tanh"
        elif self.how == "boastful":
            return PassResult(("nothing",))
        elif self.how == "restless":
            first.op_type = "Selu" if first.op_type == "Relu" else "Relu"
            return PassResult(("again",))
        elif self.how == "renaming":
            last.outputs[0].name = "z"
            return PassResult(("renamed",))
        elif self.how == "invalid":
            model.graph.remove(first)
            return PassResult(("removed",))
        return PassResult(refusals=(Refusal("nothing to do", "here"),))


def _case(tmp_path: Path, header: str = TOLERANCES, after: str = "--- after\n\n") -> Path:
    path = tmp_path / "misbehave.txt"
    path.write_text(f"=== title\n{header}{BEFORE}{after}")
    return path


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("wrong", r"sample 0, output 'y'\[0, 0\]: .* expected .*2 of 2 elements differ"),
        ("silent", "says modified=False, and the text changed"),
        ("boastful", "says modified=True, and the text did not change"),
        ("renaming", "changed the inputs or outputs"),
        ("restless", "output 'y'|not at its fixed point"),
    ],
)
def test_misbehaviour_is_noticed(how: str, message: str, tmp_path: Path) -> None:
    [case] = parse_cases(_case(tmp_path, f"options: how={how!r}\n{TOLERANCES}"))
    with pytest.raises(AssertionError, match=message):
        run_case(case, [Misbehave])


def test_an_invalid_graph_is_noticed(tmp_path: Path) -> None:
    [case] = parse_cases(_case(tmp_path, f"options: how='invalid'\n{TOLERANCES}"))
    with pytest.raises(InternalError, match="invalid graph after misbehave"):
        run_case(case, [Misbehave])


def test_an_unchanged_case_needs_the_reason_to_match(tmp_path: Path) -> None:
    header = TOLERANCES + "expect: unchanged\nreason: "
    [case] = parse_cases(_case(tmp_path, header + "here: nothing to do\n", ""))
    assert run_case(case, [Misbehave]).result.refusals[0].reason == "nothing to do"
    [case] = parse_cases(_case(tmp_path, header + "something else\n", ""))
    with pytest.raises(AssertionError, match="no refusal matches 'something else'"):
        run_case(case, [Misbehave])


def test_the_golden_text_is_compared_but_for_white_space(tmp_path: Path) -> None:
    [case] = parse_cases(_case(tmp_path))
    outcome = run_case(case, [Misbehave])
    with pytest.raises(AssertionError, match="not the golden one"):
        check_golden(case, outcome)
    check_golden(dataclasses.replace(case, after=outcome.after.replace("\n", "\n  ")), outcome)


@pytest.mark.parametrize(
    ("header", "after", "message"),
    [
        ("rtol: 0\n", "--- after\n", "no atol"),
        ("atol: 0\n", "--- after\n", "no rtol"),
        (TOLERANCES + "sizes: 1\n", "--- after\n", "'sizes' is not a header line"),
        (TOLERANCES + "expect: unchanged\n", "", "unchanged without a reason"),
        (TOLERANCES + "expect: unchanged\nreason: x\n", "--- after\n", "parts"),
        (TOLERANCES, "", "parts"),
    ],
)
def test_incomplete_cases_are_refused(header: str, after: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        parse_cases(_case(tmp_path, header, after))


ONE = np.array([1.0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (ONE.astype(np.float64), ONE, "type float64, expected float32"),
        (ONE[None], ONE, r"shape \(1, 2\), expected \(2,\)"),
        (ONE + np.float32(0.01), ONE, r"value\[0\]: 1.00999999, expected 1 \(1 of 2 elements differ"),
        (np.array([1, 2], np.float32), ONE, r"value\[1\]: 2, expected nan"),
        (np.array([1, 2]), np.array([1, 3]), r"\[1 2\] is not \[1 3\]"),
        (np.array([np.inf]), np.array([-np.inf]), "inf, expected -inf"),
    ],
)
def test_assert_close_says_what_differs(actual: np.ndarray, expected: np.ndarray, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close(actual, expected, rtol=1e-3, atol=1e-3)


def test_assert_close_has_no_default_tolerance() -> None:
    assert_close(ONE + np.float32(1e-4), ONE, rtol=1e-3, atol=0)
    assert_close(np.zeros((0, 2)), np.zeros((0, 2)), rtol=0, atol=0)
    with pytest.raises(TypeError, match="rtol"):
        assert_close(ONE, ONE)  # type: ignore[call-arg]


def test_samples_are_seeded_differ_and_reach_both_branches(tmp_path: Path) -> None:
    [case] = parse_cases(_case(tmp_path))
    from aotc.testing import load_case

    model = load_case(case)
    flag = ir.Value(name="c", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    index = ir.Value(name="i", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([100]))
    model.graph.inputs.extend([flag, index])
    samples = [sample_inputs(model, n, dims={"N": [3, 0]}, ranges={"i": (5, 7)}) for n in range(2)]
    assert [sample["x"].shape for sample in samples] == [(3, 2), (0, 2)]
    assert {bool(sample["c"]) for sample in samples} == {True, False}
    assert set(samples[0]["i"].tolist()) == {5, 6}
    again = sample_inputs(model, 0, dims={"N": [3, 0]}, ranges={"i": (5, 7)})
    assert all(np.array_equal(again[name], samples[0][name]) for name in again)
