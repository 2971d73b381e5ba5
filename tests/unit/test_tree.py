"""Nested values: flat names, frozen constants, and the way back."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc import tree
from aotc.errors import InputError, RefusedError
from aotc.tree import ConstantLeaf, Record

A, B, C = (np.full((2,), value) for value in (1.0, 2.0, 3.0))
Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


class Mode(enum.IntEnum):
    FAST = 1


class Shade(enum.StrEnum):
    RED = "red"


def names(value: Any, name: str = "", root: str = "output") -> list[str]:
    return [leaf.name for leaf in tree.leaves(tree.build(value, name, root=root))]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (A, ["output"]),
        ((A, B), ["output.0", "output.1"]),
        ([A, (B, C)], ["output.0", "output.1.0", "output.1.1"]),
        ({"logits": A, "hidden": (B, C)}, ["logits", "hidden.0", "hidden.1"]),
        (Point(A, B), ["x", "y"]),
        (Pair(A, {"k": B}), ["first", "second.k"]),
        ((A, None, 3, B), ["output.0", "output.3"]),
        ({}, []),
    ],
)
def test_names_are_paths_in_order(value: Any, expected: list[str]) -> None:
    assert names(value) == expected


def test_names_of_an_argument_start_with_it() -> None:
    assert names({"k": [A, B]}, "cache", "cache") == ["cache.k.0", "cache.k.1"]


def test_the_order_is_that_of_the_dict() -> None:
    assert names({"z": A, "a": B}) == ["z", "a"]


def test_round_trip_keeps_structure_and_turns_classes_into_records() -> None:
    value = {"t": (A, [B]), "p": Point(C, None), "n": Pair(A, 2), "s": "text", "f": 1.5, "b": True}
    part = tree.build(value, "", root="output")
    back = tree.unflatten(part, tree.flatten(part, value, "value"))
    assert back["t"][0] is A
    assert isinstance(back["t"], tuple)
    assert isinstance(back["t"][1], list)
    assert type(back["p"]) is Record
    assert back["p"].x is C
    assert back["n"].second == 2
    assert (back["s"], back["f"], back["b"], back["p"].y) == ("text", 1.5, True, None)


def test_a_record_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        _ = Record(x=1).missing


def test_json_round_trip_keeps_kinds_of_constants() -> None:
    part = tree.build([1, 1.0, True, "1", None, -0.0], "", root="output")
    again = type(part).model_validate_json(part.model_dump_json(), strict=True)
    assert [type(leaf.value) for leaf in again.items] == [int, float, bool, str, type(None), float]
    assert again == part


@pytest.mark.parametrize(
    ("built", "called"), [(1, 2), (1, True), (1, 1.0), (True, 1), (None, 0), ("a", "b"), (1.5, 1), (2, None)]
)
def test_a_changed_constant_is_an_input_error(built: Any, called: Any) -> None:
    part = tree.build((A, built), "x", root="x")
    with pytest.raises(InputError, match=r"x\.1 was frozen as .* and cannot be"):
        tree.flatten(part, (A, called), "x")


@pytest.mark.parametrize(
    ("built", "called", "message"),
    [
        ((A, B), (A,), "must be a tuple of 2 items"),
        ([A], A, "must be a list of 1 items"),
        ({"a": A}, {"b": A}, r"must have the fields \['a'\]"),
        ({"a": A}, [A], r"must have the fields \['a'\]"),
        (A, 3.0, "must be an array, not float"),
        (A, None, "must be an array, not NoneType"),
    ],
)
def test_another_structure_is_an_input_error(built: Any, called: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tree.flatten(tree.build(built, "x", root="x"), called, "x")


def test_a_tuple_may_be_given_as_a_list_and_a_dict_in_any_order() -> None:
    part = tree.build(({"a": A, "b": B},), "x", root="x")
    assert tree.flatten(part, [{"b": B, "a": A}], "x") == {"x.0.a": A, "x.0.b": B}


def test_enums_are_frozen_as_their_values() -> None:
    part = tree.build((Mode.FAST, Shade.RED), "x", root="x")
    assert [leaf.value for leaf in part.items] == [1, "red"]
    assert [type(leaf.value) for leaf in part.items] == [int, str]
    assert tree.flatten(part, (Mode.FAST, Shade.RED), "x") == {}
    assert tree.flatten(part, (1, "red"), "x") == {}


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 2**53, -(2**60)])
def test_constants_that_json_cannot_hold_are_refused(value: float) -> None:
    with pytest.raises(RefusedError, match="which a signature cannot hold") as caught:
        tree.build({"k": value}, "", root="output")
    assert caught.value.name == "unsupported-type"
    assert "k is the constant" in caught.value.message


@pytest.mark.parametrize("value", [{1, 2}, object(), 3 + 4j, b"raw", slice(1)])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(RefusedError, match=rf"x\.0 is of the type {type(value).__qualname__}"):
        tree.build([value], "x", root="x")


def test_keys_that_are_not_strings_are_refused() -> None:
    with pytest.raises(RefusedError, match=r"keys that are not strings: .'1'"):
        tree.build({1: A}, "x", root="x")


@pytest.mark.parametrize("value", [{"a.b": A, "a": {"b": B}}, {"": A, "output": B}])
def test_two_tensors_of_one_name_are_refused(value: Any) -> None:
    with pytest.raises(RefusedError, match="would both be called"):
        tree.refuse_repeated_names([tree.build(value, "", root="output")])


def test_rename_reaches_every_leaf_and_nothing_else() -> None:
    part = tree.build({"a": [A, 7], "b": Point(B)}, "", root="output")
    renamed = tree.rename(part, str.upper)
    assert [leaf.name for leaf in tree.leaves(renamed)] == ["A.0", "B.X"]
    assert tree.rename(renamed, str.lower) == part


NESTED = st.recursive(
    st.sampled_from([A, B, C, None, 3, -1.5, "s", True]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(NESTED)
def test_any_nesting_comes_back(value: Any) -> None:
    part = tree.build(value, "", root="output")
    tree.refuse_repeated_names([part])
    flat = tree.flatten(part, value, "value")
    assert list(flat) == [leaf.name for leaf in tree.leaves(part)]
    assert repr(tree.unflatten(part, flat)) == repr(value)


def test_a_constant_leaf_refuses_infinity_in_a_file() -> None:
    with pytest.raises(ValueError, match="finite"):
        ConstantLeaf(value=float("inf"))
