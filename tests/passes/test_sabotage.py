"""The harness notices wrong folding: each wrong formula must fail by execution, not by its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from aotc_passes.optimise import PASSES, fold_batch_norm

from aotc.testing import Case, parse_cases, run_case

CASES = parse_cases(Path(__file__).parent / "cases" / "fold-batch-norm.txt")
FOLDED = [case for case in CASES if case.after is not None]
TRANSPOSED = [case for case in FOLDED if "ConvTranspose" in case.before]
BIASED = [case for case in FOLDED if "w, b)" in case.before]
Array = np.ndarray[Any, Any]

right_scale = fold_batch_norm.scale_and_shift
right_weight = fold_batch_norm.scaled_weight


def _parameters(norm: ir.Node) -> list[Array]:
    return [v.const_value.numpy().astype(np.float64) for v in norm.inputs[1:] if v and v.const_value]


def _epsilon_dropped(norm: ir.Node) -> tuple[Array, Array]:
    scale, bias, mean, variance = _parameters(norm)
    factor = scale / np.sqrt(variance)
    return factor, bias - mean * factor


def _mean_sign_flipped(norm: ir.Node) -> tuple[Array, Array]:
    factor, shift = right_scale(norm)
    return factor, shift + 2 * _parameters(norm)[2] * factor


def _beta_lost(norm: ir.Node) -> tuple[Array, Array]:
    factor, shift = right_scale(norm)
    return factor, shift - _parameters(norm)[1]


def _variance_without_root(norm: ir.Node) -> tuple[Array, Array]:
    scale, bias, mean, variance = _parameters(norm)
    factor = scale / (variance + norm.attributes.get_float("epsilon", 1e-5))
    return factor, bias - mean * factor


def _bias_lost(conv: ir.Node, factor: Array, shift: Array) -> Array:
    return shift


def _bias_not_scaled(conv: ir.Node, factor: Array, shift: Array) -> Array:
    bias = conv.inputs[2].const_value.numpy() if len(conv.inputs) > 2 and conv.inputs[2] else 0.0
    return bias + shift


def _groups_ignored(conv: ir.Node, weight: Array, factor: Array) -> Array:
    if conv.op_type == "Conv":
        return right_weight(conv, weight, factor)
    return weight * factor[: weight.shape[1]].reshape(1, -1, *[1] * (weight.ndim - 2))


def _first_axis(conv: ir.Node, weight: Array, factor: Array) -> Array:
    return weight * np.resize(factor, weight.shape[0]).reshape(-1, *[1] * (weight.ndim - 1))


def _fails(case: Case) -> bool:
    try:
        run_case(case, PASSES)
    except AssertionError as error:
        if "output '" not in str(error):
            raise  # noticed, but by something else than execution
        return True
    return False


@pytest.mark.parametrize(
    ("function", "wrong", "cases"),
    [
        ("scale_and_shift", _mean_sign_flipped, FOLDED),
        ("scale_and_shift", _beta_lost, FOLDED),
        ("scale_and_shift", _variance_without_root, FOLDED),
        ("folded_bias", _bias_lost, BIASED),
        ("folded_bias", _bias_not_scaled, BIASED),
        ("scaled_weight", _first_axis, TRANSPOSED),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_case_notices(
    function: str, wrong: object, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cases
    monkeypatch.setattr(fold_batch_norm, function, wrong)
    assert [case.title for case in cases if not _fails(case)] == []


@pytest.mark.parametrize(
    ("function", "wrong"),
    [("scale_and_shift", _epsilon_dropped), ("scaled_weight", _groups_ignored)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_some_case_notices(function: str, wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_batch_norm, function, wrong)
    assert [case.title for case in FOLDED if _fails(case)] != []


def test_right_formulas_pass() -> None:
    assert not any(_fails(case) for case in FOLDED)
