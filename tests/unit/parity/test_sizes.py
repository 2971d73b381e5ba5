"""Which sizes a gate covers: every corner pair, odd sizes, and without a profile those around the example."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc.parity.sizes import verified_sizes
from aotc.signature import Argument, Bounds, Profile, Signature, TensorSpec
from aotc.tree import TensorLeaf


def signature(dims: Any, profiles: Any = (), bounds: Any = None, guards: Any = ()) -> Signature:
    spec = TensorSpec(name="x", dtype="float32", shape=tuple(dims))
    out = TensorSpec(name="output", dtype="float32", shape=())
    return Signature(
        arguments=(Argument(name="x", kind="positional", tree=TensorLeaf(name="x")),),
        inputs=(spec,),
        outputs=(out,),
        result=TensorLeaf(name="output"),
        profiles=tuple({n: Profile(min=a, opt=b, max=c) for n, (a, b, c) in p.items()} for p in profiles),
        bounds=bounds or {},
        guards=tuple(guards),
    )


PROFILE = st.lists(st.integers(0, 40), min_size=3, max_size=3).map(sorted)


@given(st.lists(PROFILE, min_size=1, max_size=7))
def test_every_pair_of_ends_of_any_two_dims_occurs(profile: list[list[int]]) -> None:
    names = [f"d{i}" for i in range(len(profile))]
    table = dict(zip(names, profile, strict=True))
    sizes = verified_sizes(signature(names, [table]), {name: p[1] for name, p in table.items()})
    for one, other in itertools.combinations(names, 2):
        for a, b in itertools.product((table[one][0], table[one][2]), (table[other][0], table[other][2])):
            assert any(size[one] == a and size[other] == b for size in sizes), (one, a, other, b)
    for name, (low, opt, high) in table.items():
        found = {size[name] for size in sizes}
        assert {low, opt, high} <= found
        assert all(low <= size <= high for size in found)
        if high - low >= 2:
            assert any(size % 2 for size in found)
    assert sizes[0] == {name: p[1] for name, p in table.items()}
    assert len(sizes) <= 2 + 8 + 4 * len(names)
    assert len({tuple(sorted(size.items())) for size in sizes}) == len(sizes)


def test_up_to_three_dims_all_corners() -> None:
    table = {"a": (1, 2, 4), "b": (2, 3, 8), "c": (3, 4, 5)}
    sizes = verified_sizes(signature("abc", [table]), {"a": 2, "b": 3, "c": 4})
    corners = set(itertools.product((1, 4), (2, 8), (3, 5)))
    assert corners <= {(s["a"], s["b"], s["c"]) for s in sizes}


def test_several_profiles_are_covered_each() -> None:
    profiles = [{"n": (1, 2, 4)}, {"n": (16, 32, 64)}]
    found = {s["n"] for s in verified_sizes(signature("n", profiles), {"n": 2})}
    assert {1, 2, 4, 16, 32, 64} <= found
    assert any(16 < size < 64 and size % 2 for size in found)


@pytest.mark.parametrize(("example", "larger"), [(1, 5), (2, 5), (3, 9), (4, 9), (7, 17)])
def test_without_a_profile(example: int, larger: int) -> None:
    found = {s["n"] for s in verified_sizes(signature("n"), {"n": example})}
    assert found == {0, 1, 2, example, larger}


@given(st.integers(0, 20), st.integers(1, 40), st.integers(0, 40))
def test_bounds_are_respected(low: int, more: int, place: int) -> None:
    high = low + more
    example = low + place % (more + 1)
    limited = signature("n", bounds={"n": Bounds(min=low, max=high)})
    found = {s["n"] for s in verified_sizes(limited, {"n": example})}
    assert example in found
    assert all(low <= size <= high or size == example for size in found), found


def test_dims_are_empty_one_at_a_time_and_all_at_once() -> None:
    sizes = verified_sizes(signature("ab"), {"a": 3, "b": 4})
    zeros = [size for size in sizes if 0 in size.values()]
    assert zeros == [{"a": 0, "b": 4}, {"a": 3, "b": 0}, {"a": 0, "b": 0}]


def test_no_dims_is_one_set() -> None:
    assert verified_sizes(signature((2, 3)), {}) == [{}]


@pytest.mark.parametrize(
    ("guards", "step"), [(["Eq(Mod(n, 8), 0)"], 8), (["Eq(Mod(n, 4), 0)", "Eq(Mod(n, 6), 0)"], 12)]
)
def test_odd_multiples_stand_for_odd_sizes(guards: list[str], step: int) -> None:
    profile = {"n": (step, 2 * step, 7 * step)}
    found = {s["n"] for s in verified_sizes(signature("n", [profile], guards=guards), {"n": 2 * step})}
    assert found == {step, 2 * step, 3 * step, 7 * step}
    free = signature("n", bounds={"n": Bounds(max=6 * step)}, guards=guards)
    assert {s["n"] for s in verified_sizes(free, {"n": 3 * step})} == {0, 1, 2, 3 * step, 5 * step}


@pytest.mark.parametrize("guard", ["Eq(Mod(m, 8), 0)", "Ne(Mod(n, 8), 0)", "Eq(Mod(n + 1, 8), 0)"])
def test_other_conditions_leave_odd_sizes(guard: str) -> None:
    found = {s["n"] for s in verified_sizes(signature("n", [{"n": (1, 2, 64)}], guards=[guard]), {"n": 2})}
    assert found == {1, 2, 9, 64}
