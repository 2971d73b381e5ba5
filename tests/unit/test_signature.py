"""The signature: binding calls, and refusing every input that it does not allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from aotc import tree
from aotc.errors import InputError, UsageError
from aotc.signature import Argument, Bounds, IndexRange, Profile, Signature, TensorSpec, parse_profiles


def leaf(name: str) -> tree.TensorLeaf:
    return tree.TensorLeaf(name=name)


X = TensorSpec(name="x", dtype="float32", shape=("batch", "seq", 4))
MASK = TensorSpec(name="mask", dtype="int64", shape=("batch", "2*seq"))
Y = TensorSpec(name="output", dtype="float32", shape=("batch", 4))


def argument(name: str, part: Any, kind: str = "positional") -> Argument:
    return Argument(name=name, kind=kind, tree=part)  # type: ignore[arg-type]


def signature(**changes: Any) -> Signature:
    fields = {
        "arguments": (argument("x", leaf("x")), argument("mask", leaf("mask"))),
        "inputs": (X, MASK),
        "outputs": (Y,),
        "result": leaf("output"),
    }
    return Signature(**(fields | changes))


def feeds(batch: int = 2, seq: int = 3) -> dict[str, np.ndarray]:
    return {"x": np.zeros((batch, seq, 4), np.float32), "mask": np.zeros((batch, 2 * seq), np.int64)}


def test_check_returns_the_sizes() -> None:
    assert signature().check(feeds(2, 3)) == {"batch": 2, "seq": 3}
    assert signature().dims == ("batch", "seq")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", np.zeros((2, 3, 4)), "the input 'x' must be float32, not float64"),
        ("x", np.zeros((2, 3), np.float32), "the input 'x' must have 3 axes, not 2"),
        ("x", np.zeros((2, 3, 5), np.float32), "axis 2 of input 'x' must be 4, not 5"),
        ("mask", np.zeros((3, 6), np.int64), "axis 0 of input 'mask' must be 'batch' = 2, not 3"),
        ("mask", np.zeros((2, 7), np.int64), "axis 1 of input 'mask' must be '2\\*seq' = 6, not 7"),
        ("mask", None, "the input 'mask' is missing"),
        ("more", np.zeros(1), "there is no input 'more'"),
    ],
)
def test_other_inputs_are_refused(name: str, value: Any, message: str) -> None:
    given = feeds() | {name: value}
    given = {key: array for key, array in given.items() if array is not None}
    with pytest.raises(InputError, match=message):
        signature().check(given)


def test_bounds_are_inclusive() -> None:
    limited = signature(bounds={"seq": Bounds(min=2, max=4)})
    for seq in (2, 4):
        limited.check(feeds(seq=seq))
    for seq in (1, 5):
        with pytest.raises(InputError, match=f"the dim 'seq' must be 2 to 4, not {seq}"):
            limited.check(feeds(seq=seq))
    with pytest.raises(InputError, match="must be 3 to any size, not 2"):
        signature(bounds={"seq": Bounds(min=3)}).check(feeds(seq=2))


def test_intersection_of_bounds() -> None:
    assert Bounds(min=2).intersection(Bounds(min=1, max=5)) == Bounds(min=2, max=5)
    assert Bounds(max=3).intersection(Bounds(max=9)) == Bounds(max=3)
    assert Bounds().intersection(Bounds()) == Bounds()


def test_one_of_several_profiles_must_allow_all_dims() -> None:
    small = {"batch": Profile(min=1, opt=1, max=2), "seq": Profile(min=1, opt=4, max=8)}
    large = {"batch": Profile(min=8, opt=8, max=8), "seq": Profile(min=1, opt=1, max=2)}
    both = signature(profiles=(small, large))
    both.check(feeds(2, 8))
    both.check(feeds(8, 2))
    with pytest.raises(InputError, match="no profile allows these sizes: 'batch' must be 1 to 2, not 8"):
        both.check(feeds(8, 3))


@pytest.mark.parametrize(
    ("low", "high", "good", "bad"), [(0, 5, [0, 5], [-1, 6]), ("-(seq)", "(seq) - 1", [-3, 2], [-4, 3])]
)
def test_ranges(low: Any, high: Any, good: list[int], bad: list[int]) -> None:
    ranged = MASK.model_copy(update={"range": IndexRange(low=low, high=high, origin="table (m.py:1)")})
    checked = signature(inputs=(X, ranged))
    for value in good:
        given = feeds()
        given["mask"][1, 1] = value
        checked.check(given)
    for value in bad:
        given = feeds()
        given["mask"][1, 1] = value
        with pytest.raises(InputError, match=f"must hold values from .* not {value}") as caught:
            checked.check(given)
        assert caught.value.where == "table (m.py:1)"


def test_an_empty_index_input_is_in_range() -> None:
    ranged = MASK.model_copy(update={"range": IndexRange(low=0, high=5, origin="")})
    signature(inputs=(X, ranged)).check(feeds(seq=0))


def test_size_zero_can_be_refused_later() -> None:
    strict = signature(bounds={"seq": Bounds(max=9)}).without_size_zero({"seq", "batch"})
    assert strict.bounds == {"batch": Bounds(min=1), "seq": Bounds(min=1, max=9)}


CALL = signature(
    arguments=(
        argument("x", leaf("x")),
        argument("scale", tree.ConstantLeaf(value=2.0)),
        argument("rest", tree.build((np.zeros(1),), "rest", root="rest"), "variadic"),
        argument("mask", leaf("mask"), "keyword"),
    ),
    inputs=(X, TensorSpec(name="rest.0", dtype="float32", shape=(1,)), MASK),
)


def test_binding_by_position_and_keyword() -> None:
    x, rest, mask = object_array("x"), object_array("r"), object_array("m")
    want = {"x": x, "rest.0": rest, "mask": mask}
    assert CALL.flatten_call(x, 2.0, rest, mask=mask) == want
    del want["rest.0"]
    short = signature(arguments=(*CALL.arguments[:2], CALL.arguments[3]))
    assert short.flatten_call(mask=mask, x=x) == want  # a constant may be left out


def object_array(text: str) -> Any:
    class Array:
        shape, dtype = (), text

    return Array()


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"mask": object_array("m")}, "the argument 'x' is missing"),
        ((object_array("x"),), {"mask": object_array("m")}, "rest must be a tuple of 1 items"),
        ((object_array("x"),), {"masks": object_array("m")}, "unexpected argument 'masks'"),
        ((object_array("x"),), {"x": object_array("x")}, "unexpected argument 'x'"),
        ((object_array("x"), 3.0, object_array("r")), {"mask": object_array("m")}, "scale was frozen as 2.0"),
    ],
)
def test_calls_that_do_not_bind(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CALL.flatten_call(*args, **kwargs)


def test_too_many_positional_arguments() -> None:
    with pytest.raises(InputError, match="forward takes 2 positional arguments, not 3"):
        signature().flatten_call(1, 2, 3)


def test_torch_and_numpy_bind_alike() -> None:
    tensor, array = torch.zeros(2, 3, 4), np.zeros((2, 6), np.int64)
    assert signature().flatten_call(tensor, mask=array) == {"x": tensor, "mask": array}


def stateful(state: dict[str, str], **changes: Any) -> Signature:
    h = TensorSpec(name="h", dtype="float32", shape=("batch", 4))
    return signature(
        **{"arguments": (*signature().arguments, argument("h", leaf("h"))), "inputs": (X, MASK, h)} | changes,
        state=state,
    )


def test_a_step_binds_without_the_state() -> None:
    x, mask = object_array("x"), object_array("m")
    first = (argument("h", leaf("h")), *signature().arguments)
    assert stateful({"h": "output"}, arguments=first).flatten_step(x, mask) == {"x": x, "mask": mask}
    with pytest.raises(InputError, match="forward takes 2 positional arguments, not 3"):
        stateful({"h": "output"}).flatten_step(x, mask, x)


PAIR = (
    argument("x", leaf("x")),
    argument("both", tree.Sequence(kind="tuple", items=(leaf("mask"), leaf("h")))),
)


@pytest.mark.parametrize(
    ("state", "changes", "message"),
    [
        ({"g": "output"}, {}, "state names the input 'g', which does not exist"),
        ({"h": "out"}, {}, "state names the output 'out', which does not exist"),
        (
            {"x": "output"},
            {},
            r"the state 'x' is float32 \[batch, seq, 4\], the output 'output' is float32 \[batch, 4\]",
        ),
        ({"mask": "output"}, {}, r"the state 'mask' is int64 .* the output 'output' is float32"),
        (
            {"h": "output", "x": "output"},
            {"inputs": (Y.model_copy(update={"name": "x"}), MASK, Y.model_copy(update={"name": "h"}))},
            "the output 'output' is the next value of two states",
        ),
        ({"h": "output"}, {"arguments": PAIR}, "the argument 'both' holds state beside other tensors"),
    ],
)
def test_state_that_cannot_be_is_refused(
    state: dict[str, str], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        stateful(state, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": (X, X), "arguments": (argument("x", leaf("x")),)}, "two inputs share a name"),
        ({"outputs": ()}, "the outputs are not the tensors of their structure"),
        ({"bounds": {"q": Bounds()}}, "no input has the dim 'q'"),
        ({"profiles": ({"q": Profile(min=1, opt=1, max=1)},)}, "no input has the dim 'q'"),
    ],
)
def test_inconsistent_signatures_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        signature(**changes)


def test_only_integers_have_ranges() -> None:
    ranged = X.model_copy(update={"range": IndexRange(low=0, high=1, origin="")})
    with pytest.raises(ValidationError, match="has an index range and is float32"):
        signature(inputs=(ranged, MASK))


def test_profiles_are_parsed() -> None:
    assert parse_profiles([{"n": (1, 2, 3)}], ("n",)) == ({"n": Profile(min=1, opt=2, max=3)},)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"m": (1, 2, 3)}, "the profile names the dim 'm', which no input has"),
        ({"n": (3, 2, 1)}, "0 <= min <= opt <= max"),
        ({"n": (-1, 2, 3)}, "0 <= min <= opt <= max"),
        ({"n": (1, 2)}, "0 <= min <= opt <= max"),
        ({"n": 4}, "0 <= min <= opt <= max"),
        ({"n": ("a", "b", "c")}, "0 <= min <= opt <= max"),
    ],
)
def test_wrong_profiles_are_usage_errors(profile: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_profiles([profile], ("n",))
    assert caught.value.name == "profile"
