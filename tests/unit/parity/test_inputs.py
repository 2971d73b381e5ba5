"""The drawn inputs of the gate: allowed, seeded, and hard in every role."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc.errors import InputError
from aotc.parity.cases import all_cases, one_case
from aotc.parity.inputs import Case, generate
from aotc.signature import Argument, IndexRange, Profile, Signature, TensorSpec
from aotc.tree import TensorLeaf

MASKS = ("ones", "zeros", "one row zero", "zeros first", "holes")
DTYPES = ("float32", "float16", "float64", "int8", "int32", "int64", "uint8", "uint64", "bool")


def signature(*specs: TensorSpec, profiles: Any = (), output: Any = (4,)) -> Signature:
    return Signature(
        arguments=tuple(
            Argument(name=s.name, kind="positional", tree=TensorLeaf(name=s.name)) for s in specs
        ),
        inputs=specs,
        outputs=(TensorSpec(name="output", dtype="float32", shape=output),),
        result=TensorLeaf(name="output"),
        profiles=profiles,
    )


def spec(
    name: str, dtype: str, *shape: Any, low: Any = None, high: Any = None, unique: bool = False
) -> TensorSpec:
    allowed = None if low is None else IndexRange(low=low, high=high, origin="", unique=unique)
    return TensorSpec(name=name, dtype=dtype, shape=shape, range=allowed)


def example(specs: tuple[TensorSpec, ...], sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    feeds = {}
    for each in specs:
        shape = [sizes.get(size, size) for size in each.shape]
        if each.dtype == "bool":
            value = rng.random(shape) < 0.5
        elif each.dtype.startswith("float"):
            value = rng.uniform(-2, 2, shape)
        else:
            value = rng.integers(0, 4, shape)
        feeds[each.name] = np.asarray(value, each.dtype)
    return feeds


@st.composite
def signatures(draw: Any) -> tuple[Signature, dict[str, np.ndarray]]:
    sizes = {"n": draw(st.integers(1, 4)), "m": draw(st.integers(1, 4))}
    specs = []
    for index in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from(DTYPES))
        shape = draw(st.lists(st.sampled_from(["n", "m", 2, 3]), max_size=3))
        low, high = None, None
        if "int" in dtype and draw(st.booleans()):
            low, high = draw(
                st.sampled_from([(0, 3), (0, 9)] if dtype.startswith("u") else [(0, 3), (-4, 3)])
            )
        specs.append(spec(f"x{index}", dtype, *shape, low=low, high=high))
    used = {size for each in specs for size in each.shape if isinstance(size, str)}
    profile = {name: Profile(min=0, opt=sizes[name], max=6) for name in used if draw(st.booleans())}
    found = signature(*specs, profiles=(profile,) if profile else ())
    return found, example(tuple(specs), sizes, draw(st.integers(0, 9)))


@settings(deadline=None, max_examples=60)
@given(signatures(), st.integers(0, 3))
def test_every_case_is_allowed_except_those_that_must_be_refused(
    drawn: tuple[Signature, dict[str, np.ndarray]], seed: int
) -> None:
    found, observed = drawn
    labels = []
    for case in generate(found, [observed], seed=seed):
        labels.append(case.label)
        if case.kind == "index":
            with pytest.raises(InputError, match="must hold values from"):
                found.check(case.feeds)
            continue
        assert found.check(case.feeds) == case.sizes
        if case.fallback is not None:
            assert found.check(case.fallback) == case.sizes
    assert len(labels) == len(set(labels))


def cases(*specs: TensorSpec, observed: dict[str, Any], **more: Any) -> list[Case]:
    return list(generate(signature(*specs, **more), [observed], seed=0))


def test_the_same_seed_gives_the_same_values_and_another_seed_others() -> None:
    found = signature(spec("x", "float32", "n", 3))
    observed = [{"x": np.random.default_rng(0).random((2, 3), np.float32)}]
    one, same, other = (list(generate(found, observed, seed=seed)) for seed in (1, 1, 2))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a.feeds["x"], b.feeds["x"])
    assert any(not np.array_equal(a.feeds["x"], b.feeds["x"]) for a, b in zip(one, other, strict=True))


def test_floats_are_drawn_from_what_was_shown() -> None:
    observed = {"x": np.array([[0.25, 0.5]], np.float32)}
    for case in cases(spec("x", "float32", "n", 2), observed=observed):
        if case.kind != "hard":
            assert set(np.unique(case.feeds["x"])) <= {0.25, 0.5}


def hard(found: list[Case]) -> dict[str, Case]:
    return {case.label: case for case in found if case.kind == "hard"}


def test_hard_floats() -> None:
    found = hard(cases(spec("x", "float32", 50), observed={"x": np.linspace(-2, 2, 50, dtype=np.float32)}))
    assert set(found) == {"x: zeros", "x: large", "x: negative"}
    assert not found["x: zeros"].feeds["x"].any()
    assert (found["x: negative"].feeds["x"] <= 0).all()
    assert 1000 < np.abs(found["x: large"].feeds["x"]).max() <= 2000


def test_hard_halves_stay_finite() -> None:
    found = hard(cases(spec("x", "float16", 50), observed={"x": np.full(50, 3e4, np.float16)}))
    assert np.isfinite(found["x: large"].feeds["x"]).all()


def test_hard_indices() -> None:
    ids = np.array([1, 2], np.int64)
    found = cases(spec("ids", "int64", 2, low=-5, high=4), observed={"ids": ids})
    assert hard(found)["ids: lowest"].feeds["ids"].tolist() == [-5, -5]
    assert hard(found)["ids: highest"].feeds["ids"].tolist() == [4, 4]
    outside = {case.label: case.feeds["ids"].tolist() for case in found if case.kind == "index"}
    assert outside == {"ids holds -6": [1, -6], "ids holds 5": [1, 5]}


def test_values_that_the_type_cannot_hold_are_not_tried() -> None:
    ids = np.array([1, 2], np.uint8)
    found = cases(spec("ids", "uint8", 2, low=0, high=255), observed={"ids": ids})
    assert [case for case in found if case.kind == "index"] == []


def test_unique_positions_stay_unique() -> None:
    ids = np.array([[1, 2, 0]], np.int64)
    found = cases(spec("p", "int64", "n", 3, low=-4, high=3, unique=True), observed={"p": ids})
    assert hard(found) == {}
    for case in found:
        if case.kind not in ("index", "bad"):
            assert all(len(set(row)) == 3 and min(row) >= 0 for row in case.feeds["p"].tolist())


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32"])
def test_hard_masks_one_by_one(dtype: str) -> None:
    mask = np.array([[1, 1, 0], [1, 0, 0]], dtype)
    found = hard(cases(spec("a", dtype, 2, 3), spec("b", dtype, 2, 3), observed={"a": mask, "b": mask}))
    assert set(found) == {f"{name}: {p}" for name in "ab" for p in MASKS}
    assert found["a: ones"].feeds["a"].all()
    assert not found["a: zeros"].feeds["a"].any()
    assert found["a: zeros"].feeds["b"].any()
    rows = found["b: one row zero"].feeds["b"].any(-1)
    assert rows.tolist() == [False, True]
    assert (np.diff(found["a: zeros first"].feeds["a"].astype(int), axis=-1) >= 0).all()


def test_holes_are_where_a_count_of_ones_does_not_tell() -> None:
    mask = np.ones((8, 9), np.int64)
    holes = hard(cases(spec("m", "int64", 8, 9), observed={"m": mask}))["m: holes"].feeds["m"]
    assert (np.diff(holes, axis=-1) > 0).any()
    assert holes.any(-1).all()


@pytest.mark.parametrize("rows", [7, 50])
def test_no_index_comes_twice_before_all_have_come(rows: int) -> None:
    ids = np.array([1, 2, 3], np.int64)
    found = cases(spec("ids", "int64", "n", low=0, high=rows - 1), observed={"ids": ids})
    dealt = np.concatenate([case.feeds["ids"] for case in found if case.kind in ("profile", "size")])
    counts = np.bincount(dealt, minlength=rows)
    assert counts.max() - counts.min() <= 1


def test_a_number_is_taken_one_less_and_one_more() -> None:
    found = hard(cases(spec("rate", "int64"), observed={"rate": np.array(16000)}))
    assert {label: int(case.feeds["rate"]) for label, case in found.items()} == {
        "rate: one less": 15999,
        "rate: one more": 16001,
    }
    full = hard(cases(spec("rate", "uint8"), observed={"rate": np.array(255, np.uint8)}))
    assert int(full["rate: one more"].feeds["rate"]) == 255


def test_a_mask_is_ones_then_padding() -> None:
    mask = np.ones((4, 6), np.int64)
    for case in cases(spec("m", "int64", "n", 6), observed={"m": mask}):
        if case.kind == "profile" and case.feeds["m"].size:
            assert (np.diff(case.feeds["m"], axis=-1) <= 0).all()
            assert case.feeds["m"][:, 0].all()


def test_a_flag_without_axes_is_taken_both_ways() -> None:
    found = cases(spec("flag", "bool"), observed={"flag": np.array(True)})
    assert {bool(case.feeds["flag"]) for case in found} == {False, True}


def test_hard_integers_stay_within_what_was_shown() -> None:
    values = np.array([-(2**62), 7, 2**62], np.int64)
    found = cases(spec("t", "int64", 3), observed={"t": values})
    assert hard(found)["t: lowest"].feeds["t"].tolist() == [-(2**62)] * 3
    assert hard(found)["t: highest"].feeds["t"].tolist() == [2**62] * 3
    wide = cases(spec("t", "uint64", 3), observed={"t": np.array([0, 5, 2**64 - 1], np.uint64)})
    assert hard(wide)["t: highest"].feeds["t"].tolist() == [2**64 - 1] * 3


def test_kinds_say_what_a_refusal_of_eager_means() -> None:
    specs = (spec("x", "float32", "n", "m"),)
    found = cases(
        *specs, observed={"x": np.ones((3, 4), np.float32)}, profiles=({"n": Profile(min=1, opt=3, max=5)},)
    )
    kinds = {
        (case.sizes["n"], case.sizes["m"]): case.kind for case in found if case.label.startswith("sizes")
    }
    assert kinds[3, 4] == "profile"
    assert kinds[5, 1] == "size"
    assert kinds[3, 0] == "zero"


def test_outputs_with_few_entries_get_more_draws() -> None:
    observed = {"x": np.ones((2, 3), np.float32)}
    many = [c for c in cases(spec("x", "float32", 2, 3), observed=observed, output=(64,)) if c.kind != "hard"]
    few = [c for c in cases(spec("x", "float32", 2, 3), observed=observed, output=()) if c.kind != "hard"]
    assert len(many) == 1
    assert len(few) + 1 == 12  # and the example


def test_all_cases_begin_with_what_the_source_gives() -> None:
    found = signature(spec("x", "float32", "n"))
    given_sets = [
        ("example", True, {"x": np.ones(3, np.float32)}),
        ("bad_inputs[0]", False, {"x": np.ones((3, 3), np.float32)}),
    ]
    first, second, *rest = all_cases(found, given_sets, seed=0)
    assert (first.kind, first.sizes) == ("given", {"n": 3})
    assert (second.kind, second.sizes) == ("bad", {})
    assert rest


def test_one_case_must_have_the_inputs_of_the_signature() -> None:
    found = signature(spec("x", "float32", "n"))
    (case,) = one_case(found, {"x": np.ones(3, np.float32)})
    assert case.kind == "bad"
    with pytest.raises(InputError, match="the inputs lack 'x'"):
        list(one_case(found, {}))
    with pytest.raises(InputError, match="the inputs have the unknown name 'y'"):
        list(one_case(found, {"x": np.ones(1), "y": np.ones(1)}))
