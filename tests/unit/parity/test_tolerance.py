"""The bounds, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from aotc.config import Bound
from aotc.errors import UsageError
from aotc.parity.tolerance import Measured, Tolerance, configured, derive, measure, pooled, unstable
from aotc.signature import Argument, Signature, TensorSpec
from aotc.tree import Sequence, TensorLeaf

F32 = np.float32


@pytest.mark.parametrize("values", [np.array([1, 2]), np.array([True]), np.array([], np.int8)])
def test_integers_are_exact(values: np.ndarray) -> None:
    assert derive(values, values.astype(np.float64)) == Tolerance(0.0, 0.0, "exact")


def test_float64_gets_64_of_its_ulps() -> None:
    eager = np.array([3.0, -5.0, np.inf])  # the largest finite value is 5, whose ulp is 2**-50
    assert derive(eager, None) == Tolerance(64 * 2.0**-50, 0.0, "ulps")
    assert measure(eager, eager) is None


def test_eight_times_eagers_own_error() -> None:
    eager, wide = np.array([1.0, 2.0, -4.0], F32), np.array([1.0, 2.0 + 3e-6, -4.0 - 1e-6])
    found = derive(eager, wide)
    assert found.origin == "derived"
    assert found.rtol == 0.0
    assert found.atol == pytest.approx(2.4e-5, rel=1e-9)
    assert measure(eager, wide) == Measured(pytest.approx(3e-6, rel=1e-9), 4.0, values=3)  # type: ignore[arg-type]


def test_at_least_four_ulps_of_the_largest_value() -> None:
    eager = np.array([0.1, 5.0], F32)  # the ulp of 5 in float32 is 2**-21
    assert derive(eager, eager.astype(np.float64)).atol == 4 * 2.0**-21
    half = np.array([5.0], np.float16)  # 2**-8
    assert derive(half, half.astype(np.float64)).atol == 4 * 2.0**-8


def test_infinite_entries_count_for_nothing() -> None:
    eager, wide = np.array([1.0, np.inf, np.nan], F32), np.array([1.0, 1e40, np.nan])
    assert derive(eager, wide).atol == 4 * 2.0**-23


@pytest.mark.parametrize(("largest", "atol"), [(0.5, 1e-6), (20.0, 2e-5)])
def test_where_float64_does_not_run_the_bound_says_so(largest: float, atol: float) -> None:
    found = derive(np.array([largest, -0.1], F32), None)
    assert found == Tolerance(pytest.approx(atol), 1e-5, "fallback")  # type: ignore[arg-type]
    assert derive(np.array([largest], F32), np.zeros((2,))).origin == "fallback"


def test_empty_outputs_have_a_bound() -> None:
    empty = np.zeros((0, 3), F32)
    assert derive(empty, empty.astype(np.float64)).origin == "derived"


def test_unstable_is_where_float64_has_another_class() -> None:
    eager = np.array([np.nan, np.inf, np.inf, 1.0, np.nan, -np.inf], F32)
    wide = np.array([np.nan, np.inf, 2.0, 1.0, 0.5, np.inf])
    assert unstable(eager, wide).tolist() == [False, False, True, False, True, True]
    assert unstable(np.array([np.inf], F32), np.array([1e39])).tolist() == [False]  # overflows in float32 too
    assert not unstable(eager, None).any()
    assert not unstable(np.array([1, 2]), np.array([1.0, np.nan])).any()


def test_pooling_uses_the_largest_relative_error_of_the_usual_cases() -> None:
    usual = [Measured(1e-9, 1.0), Measured(2e-7, 2.0), Measured(0.0, 4.0)]
    assert pooled(usual, [])[0] == pytest.approx([1.6e-6, 1.6e-6, 3.2e-6])  # the typical size is 2


def test_a_value_near_zero_is_measured_by_the_typical_size() -> None:
    usual = [Measured(1e-7, 1.0), Measured(1e-7, 1.0), Measured(1e-7, 1e-6)]
    assert pooled(usual, [])[0] == pytest.approx([8e-7, 8e-7, 8e-7])


def test_a_case_of_many_values_is_its_own_sample() -> None:
    usual = [Measured(1e-9, 1.0, values=12), Measured(1e-9, 1.0, values=11), Measured(2e-7, 1.0, values=99)]
    hard = [Measured(1e-9, 1.0, values=12)]
    assert pooled(usual, hard)[0] == pytest.approx([3.2e-8, 1.6e-6, 1.6e-6])
    assert pooled(usual, hard)[1] == pytest.approx([3.2e-8])


def test_copies_of_a_value_are_one_sample() -> None:
    copies = np.repeat(np.array([1.0, 2.0], F32), 50)
    found = measure(copies, copies.astype(np.float64))
    assert found is not None
    assert found.values == 2


def test_small_values_show_nothing_of_the_error_of_large_ones() -> None:
    tail = np.exp(-np.arange(40.0)).astype(F32)  # three of them are above a tenth of the largest
    found = measure(tail, tail.astype(np.float64))
    assert found is not None
    assert found.values == 3


def test_hard_cases_do_not_widen_the_others() -> None:
    usual, hard = [Measured(1e-7, 1.0)], [Measured(1e-2, 10.0), Measured(0.0, 1000.0), Measured(0.0, 0.0)]
    for_usual, for_hard = pooled(usual, hard)
    assert for_usual == pytest.approx([8e-7])
    assert for_hard == pytest.approx([8e-2, 3.2e-3, 3.2e-6])


def test_nothing_to_pool() -> None:
    assert pooled([], []) == ([], [])
    assert pooled([Measured(0.0, 0.0)], [Measured(1.0, 0.0)]) == ([0.0], [8.0])


SIGNATURE = Signature(
    arguments=(Argument(name="x", kind="positional", tree=TensorLeaf(name="x")),),
    inputs=(TensorSpec(name="x", dtype="float32", shape=()),),
    outputs=(TensorSpec(name="y", dtype="float32", shape=()), TensorSpec(name="n", dtype="int64", shape=())),
    result=Sequence(kind="tuple", items=(TensorLeaf(name="y"), TensorLeaf(name="n"))),
)


def test_configured_bounds() -> None:
    assert configured({"y": Bound(atol=1e-3, rtol=1e-2)}, SIGNATURE) == {
        "y": Tolerance(1e-3, 1e-2, "configured")
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [("z", "names the output 'z', which does not exist"), ("n", "is int64 and compared exactly")],
)
def test_wrong_configured_bounds(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        configured({name: Bound(atol=1)}, SIGNATURE)


def test_a_float64_result_that_spreads_over_all_sizes_gets_ulps_of_its_largest_value() -> None:
    spread = np.exp(-np.linspace(0.0, 600.0, 101)) * 3.0
    found = derive(spread, None)
    assert found == Tolerance(64 * float(np.spacing(3.0)), 0.0, "ulps")


def test_a_float64_fill_value_is_compared_relative_to_itself() -> None:
    filled = np.concatenate([np.linspace(0.5, 1.0, 90), -1e9 - np.linspace(0.0, 3.0, 10)])
    found = derive(filled, None)
    assert found.atol == 64 * float(np.spacing(1.0))
    assert found.rtol == 64 * np.finfo(np.float64).eps


def test_fp16_gives_every_floating_output_a_relative_rms() -> None:
    specs = tuple(
        TensorSpec(name=n, dtype=d, shape=(2,))
        for n, d in (("a", "float32"), ("b", "int64"), ("c", "float32"))
    )
    signature = Signature(
        arguments=(),
        inputs=(),
        outputs=specs,
        result=Sequence(kind="tuple", items=tuple(TensorLeaf(name=s.name) for s in specs)),
    )
    found = configured({"c": Bound(atol=0.5)}, signature, "fp16")
    assert found == {"a": Tolerance(0.0, 0.01, "rms"), "c": Tolerance(0.5, 0.0, "configured")}
    assert configured({}, signature) == {}
