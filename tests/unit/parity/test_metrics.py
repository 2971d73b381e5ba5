"""Figures of one output, by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from aotc.parity import metrics
from aotc.parity.metrics import OutputFigures, compare
from aotc.parity.tolerance import Tolerance

TIGHT = Tolerance(0.5, 0.0, "derived")
EXACT = Tolerance(0.0, 0.0, "exact")


def figures(got: Any, eager: Any, bound: Tolerance = TIGHT, unstable: Any = None) -> OutputFigures:
    got, eager = np.asarray(got), np.asarray(eager)
    return compare(
        "y", got, eager, bound, np.zeros(eager.shape, bool) if unstable is None else np.asarray(unstable)
    )


def test_by_hand() -> None:
    found = figures([[1.0, 2.25], [3.0, -4.0]], [[1.0, 2.0], [3.0, -4.5]])
    assert found.passed
    assert (found.max_abs, found.ratio, found.top1) == (0.5, 1.0, 1.0)
    assert found.max_rel == 0.125
    dot = 1 + 4.5 + 9 + 18
    assert found.cosine == pytest.approx(
        dot / ((1 + 2.25**2 + 9 + 16) * (1 + 4 + 9 + 20.25)) ** 0.5, rel=1e-12
    )


def test_just_beyond_the_bound_fails_and_says_by_how_much() -> None:
    found = figures([1.75], [1.0])
    assert not found.passed
    assert found.reason == "max abs 0.75 is 1.5 times the bound"
    assert figures([1.5], [1.0]).passed


def test_relative_bounds_scale_with_eager() -> None:
    bound = Tolerance(0.0, 0.1, "configured")
    assert figures([109.0, 1.05], [100.0, 1.0], bound).passed
    assert not figures([100.0, 1.2], [100.0, 1.0], bound).passed
    zero = figures([1e-30], [0.0], bound)
    assert not zero.passed
    assert zero.ratio == float(np.finfo(np.float64).max)


def test_kl_and_top1_by_hand() -> None:
    eager = np.log(np.array([[0.5, 0.5], [0.9, 0.1]]))
    got = np.log(np.array([[0.25, 0.75], [0.9, 0.1]]))
    found = figures(got, eager, Tolerance(9.0, 0.0, "configured"))
    assert found.top1 == 0.5
    assert found.kl == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(0.5 / 0.75), rel=1e-12)


@pytest.mark.parametrize("shape", [(4,), (), (3, 1), (0, 4)])
def test_what_is_no_logits_has_no_such_figures(shape: tuple[int, ...]) -> None:
    found = figures(np.zeros(shape), np.zeros(shape))
    assert found.passed
    assert (found.top1, found.kl) == (None, None)


@pytest.mark.parametrize(
    ("got", "eager", "passed"),
    [
        ([np.nan], [np.nan], True),
        ([np.inf], [np.inf], True),
        ([np.inf], [-np.inf], False),
        ([np.nan], [1.0], False),
        ([1.0], [np.nan], False),
        ([1e308], [np.inf], False),
        ([np.inf], [np.nan], False),
    ],
)
def test_classes_must_match(got: Any, eager: Any, passed: bool) -> None:
    found = figures(got, eager)
    assert found.passed is passed
    assert (found.reason is None) is passed
    found = figures(got, eager, unstable=[True])
    assert found.passed
    assert found.excused == (not passed)


def test_the_count_of_other_classes_leaves_unstable_ones_out() -> None:
    found = figures([np.nan, np.nan, 1.0], [1.0, 2.0, 1.0], unstable=[True, False, False])
    assert found.reason == "NaN or Inf differ in 1 of 3 values"


def test_unstable_entries_do_not_count_for_the_error() -> None:
    assert figures([9.0, 1.0], [1.0, 1.0], unstable=[True, False]).max_abs == 0.0


@pytest.mark.parametrize(
    ("got", "eager", "reason"),
    [
        (np.zeros(2, np.float32), np.zeros(2), "dtype float32 for float64"),
        (np.zeros(2, np.int32), np.zeros(2, np.int64), "dtype int32 for int64"),
        (np.zeros((2, 1)), np.zeros(2), r"shape (2, 1) for (2,)"),
        (np.zeros(()), np.zeros(1), "shape () for (1,)"),
    ],
)
def test_other_types_and_shapes_fail(got: Any, eager: Any, reason: str) -> None:
    found = figures(got, eager, Tolerance(9.0, 9.0, "configured"))
    assert not found.passed
    assert found.reason == reason


def test_integers_and_bools_are_exact() -> None:
    assert figures([1, 2], [1, 2], EXACT).passed
    assert figures([1, 3], [1, 2], EXACT).reason == "1 of 2 values differ"
    assert figures([2**62 + 1], [2**62], EXACT).reason == "1 of 1 values differ"
    assert not figures([True], [False], EXACT).passed


def test_complex_outputs() -> None:
    found = figures([3 + 4j], [0j])
    assert (found.max_abs, found.passed) == (5.0, False)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(50,), (5, 10), (3, 4, 8), (1, 7), (8, 7)])
def test_blocks_do_not_change_the_figures(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    eager = RNG.standard_normal(shape)
    got = eager + RNG.uniform(-0.4, 0.4, shape)
    got.reshape(-1)[3] = eager.reshape(-1)[3] = np.inf
    whole = figures(got, eager)
    eager_finite, got_finite = np.nan_to_num(eager, posinf=1.0), np.nan_to_num(got, posinf=1.0)
    whole_finite = figures(got_finite, eager_finite)
    monkeypatch.setattr(metrics, "_BLOCK", 7)
    for blocked, want in ((figures(got, eager), whole), (figures(got_finite, eager_finite), whole_finite)):
        for name, value in want.model_dump().items():
            other = getattr(blocked, name)
            assert other == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), name


EXTREME = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.data(), st.sampled_from([np.float64, np.float32, np.float16]), st.sampled_from([TIGHT, EXACT]))
def test_figures_are_always_json(data: Any, dtype: Any, bound: Tolerance) -> None:
    shape = data.draw(npst.array_shapes(max_dims=2, max_side=4, min_side=0))
    width = np.dtype(dtype).itemsize * 8
    elements = st.floats(allow_nan=True, allow_infinity=True, width=width)
    got, eager = (data.draw(npst.arrays(dtype, shape, elements=elements)) for _ in range(2))
    found = figures(got, eager, bound)
    text = found.model_dump_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    assert OutputFigures.model_validate_json(text) == found


@pytest.mark.parametrize("largest", [1.7e308, 1e200])
def test_huge_values_are_json_too(largest: float) -> None:
    got = np.array([[largest, -largest], [largest, largest]])
    text = figures(got, -got, EXACT).model_dump_json()
    assert OutputFigures.model_validate_json(text).ratio == float(np.finfo(np.float64).max)


RMS = Tolerance(0.0, 0.01, "rms")


def test_relative_rms_by_hand() -> None:
    eager = np.array([3.0, 4.0], np.float32)  # RMS 5 / sqrt(2)
    found = figures(eager + np.float32([0.0, 0.04]), eager, RMS)
    assert found.ratio == pytest.approx(0.04 / 5 / 0.01, rel=1e-5)
    assert found.passed
    assert found.bound == "0.01 rel RMS"
    wrong = figures(eager + np.float32([0.0, 0.06]), eager, RMS)
    assert not wrong.passed
    assert wrong.reason == "relative RMS error 0.012 is 1.2 times the bound"


def test_a_fill_value_does_not_hide_the_rest_from_the_rms() -> None:
    eager = np.array([1.0, 2.0, 3.0, -1e9], np.float32)
    got = eager.copy()
    got[0] = 2.0
    assert not figures(got, eager, RMS).passed
    got = eager.copy()
    got[3] = -1.1e9
    assert not figures(got, eager, RMS).passed
    got[3] = -1.001e9
    assert figures(got, eager, RMS).passed


def test_rms_of_zeros_and_of_nothing() -> None:
    assert figures(np.zeros(3, np.float32), np.zeros(3, np.float32), RMS).passed
    assert not figures(np.float32([0, 0, 1e-20]), np.zeros(3, np.float32), RMS).passed
    assert figures(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), RMS).passed
    assert not figures(np.float32([np.inf, 1]), np.float32([1, 1]), RMS).passed
