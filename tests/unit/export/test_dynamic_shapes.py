"""Which axes are dynamic, what their dims are called, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_models import source
from torch import nn
from torch.export import Dim

from aotc.errors import RefusedError, UsageError
from aotc.export.axes import flatten_dynamic_shapes
from aotc.export.call import bind
from aotc.export.importer import Imported, import_module
from aotc.signature import Bounds

BATCH = Dim("batch")


class One(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Two(One):
    def forward(self, x: Any, y: Any = None) -> Any:
        return self.function(x, y)


def imported(module: nn.Module, inputs: Any, shapes: Any, **fields: Any) -> Imported:
    return import_module(module.eval(), source(module, inputs, shapes, **fields))


def shapes_of(found: Imported) -> list[tuple[int | str, ...]]:
    return [spec.shape for spec in found.signature.inputs]


NESTED = ({"a": [torch.zeros(2, 3), torch.zeros(2, 5)], "b": None}, torch.zeros(2))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, {}),
        ((None, None), {}),
        (({"a": [{0: BATCH}, None], "b": None}, None), {("x.a.0", 0): "batch"}),
        (
            {"x": {"a": [{0: BATCH}, ("batch", None)], "b": None}},
            {("x.a.0", 0): "batch", ("x.a.1", 0): "batch"},
        ),
        (
            {"x": {"a": ({1: "n"}, {1: Dim("m")})}, "y": [Dim.DYNAMIC]},
            {("x.a.0", 1): "n", ("x.a.1", 1): "m", ("y", 0): None},
        ),
        ({"y": {0: Dim.AUTO}}, {("y", 0): None}),
        ({"y": {0: Dim.STATIC}, "x": None}, {}),
        ({"y": {0: 2}}, {}),
        ([None, [2 * BATCH]], {("y", 0): "2*batch"}),
        ({"y": {0: "batch"}, "unknown": None}, {("y", 0): "batch"}),
    ],
)
def test_every_spelling(spec: Any, expected: dict[tuple[str, int], str | None]) -> None:
    axes = flatten_dynamic_shapes(spec, bind(Two(max), NESTED).arguments)
    assert {(name, i): axis.name for name, found in axes.items() for i, axis in found.items()} == expected


def test_auto_and_bounds_of_a_dim() -> None:
    spec = {"y": {0: Dim.AUTO}, "x": {"a": [{0: Dim("n", min=2, max=9)}, {0: Dim.DYNAMIC}]}}
    axes = flatten_dynamic_shapes(spec, bind(Two(max), NESTED).arguments)
    assert axes["y"][0].auto
    assert not axes["x.a.1"][0].auto
    assert axes["x.a.0"][0].bounds == Bounds(min=2, max=9)
    assert axes["x.a.1"][0].bounds == Bounds()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"z": {0: BATCH}}, "names 'z', which is not an argument"),
        (({0: BATCH}, None, None), "has 3 entries for 2 arguments"),
        (5, "must be a dict, a tuple or a list"),
        ("batch", "must be a dict, a tuple or a list"),
        ({"y": 5}, "must give a dict or a list of dims for y"),
        ({"y": {"0": BATCH}}, "must give the axes of y as numbers, not '0'"),
        ({"y": {0: 3.5}}, "has the dim 3.5 at y"),
        ({"x": {"a": [None]}}, "must have 2 entries at x.a"),
        ({"x": {"c": None}}, "must have the fields of x"),
        ({"x": [None, None]}, "must have the fields of x"),
        ({"y": {0: "lambda"}}, "has the dim name 'lambda' at y, which is reserved"),
        ({"y": {0: "Max"}}, "has the dim name 'Max' at y, which is reserved"),
        ({"y": {0: "not a name"}}, "reserved or not an identifier"),
    ],
)
def test_misspelt_or_misshapen_is_a_usage_error(spec: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        flatten_dynamic_shapes(spec, bind(Two(max), NESTED).arguments)
    assert caught.value.name == "dynamic-shapes"


@pytest.mark.parametrize("axis", [2, -1])
def test_an_axis_that_does_not_exist(axis: int) -> None:
    with pytest.raises(UsageError, match=f"gives axis {axis} of 'x', which has 2 axes"):
        imported(One(torch.relu), (torch.zeros(2, 3),), {"x": {axis: BATCH}})


def test_equal_names_are_one_dim_and_other_symbols_stay_apart() -> None:
    module = Two(lambda x, y: (x * 2, y * 2))
    found = imported(
        module, (torch.zeros(3, 4), torch.zeros(3, 5)), ({0: "n", 1: Dim.DYNAMIC}, {0: "n", 1: "m"})
    )
    assert shapes_of(found) == [("n", "x_1"), ("n", "m")]
    assert [spec.shape for spec in found.signature.outputs] == [("n", "x_1"), ("n", "m")]


def test_a_named_dim_wins_over_an_anonymous_one_that_the_model_makes_equal() -> None:
    found = imported(Two(torch.add), (torch.zeros(3), torch.zeros(3)), ({0: Dim.DYNAMIC}, {0: "n"}))
    assert shapes_of(found) == [("n",), ("n",)]


def test_two_names_that_the_model_makes_equal_are_refused() -> None:
    with pytest.raises(RefusedError, match="the dims 'n' and 'm' must be equal in this model") as caught:
        imported(Two(torch.add), (torch.zeros(3), torch.zeros(3)), ({0: "n"}, {0: "m"}))
    assert caught.value.name == "specialised-dim"


def test_made_up_names_do_not_clash() -> None:
    module = One(lambda x: x["a_b"].sum() + x["a"]["b"].sum() + x["c"].sum())
    inputs = ({"a_b": torch.ones(2), "a": {"b": torch.ones(3)}, "c": torch.ones(4)},)
    dynamic = {0: Dim.DYNAMIC}
    found = imported(module, inputs, ({"a_b": dynamic, "a": {"b": dynamic}, "c": {0: "x_a_b_0_"}},))
    names = [shape[0] for shape in shapes_of(found)]
    assert len(set(names)) == 3
    assert names[2] == "x_a_b_0_"


def test_a_derived_dim_is_kept_as_an_expression() -> None:
    module = Two(lambda x, y: torch.cat([x, x]) + y)
    found = imported(module, (torch.zeros(3, 2), torch.zeros(6, 2)), ({0: BATCH}, {0: 2 * BATCH}))
    assert shapes_of(found) == [("batch", 2), ("2*batch", 2)]
    apart = Two(lambda x, y: (x + 1, y[:, None] + 1))
    found = imported(apart, (torch.zeros(3, 2), torch.zeros(6, 2)), ({0: BATCH}, {0: 2 * BATCH}))
    assert shapes_of(found) == [("batch", 2), ("2*batch", 2)]
    assert found.signature.outputs[1].shape == ("2*batch", 1, 2)


def test_a_derived_dim_without_its_base_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"is '2\*batch', and no axis is 'batch' alone"):
        imported(One(torch.relu), (torch.zeros(4),), ({0: 2 * BATCH},))


@pytest.mark.parametrize("size", [0, 1])
def test_an_example_of_size_0_or_1_stays_dynamic(size: int) -> None:
    found = imported(One(lambda x: x * 2), (torch.zeros(size, 3),), ({0: BATCH},))
    assert shapes_of(found) == [("batch", 3)]


def test_sizes_that_belong_together_are_widened_together() -> None:
    module = Two(lambda x, y: torch.cat([x, x]) + y)
    found = imported(module, (torch.zeros(1, 2), torch.zeros(2, 2)), ({0: BATCH}, {0: 2 * BATCH}))
    assert shapes_of(found) == [("batch", 2), ("2*batch", 2)]


def test_a_larger_input_set_is_traced_instead_of_an_example_of_size_1() -> None:
    """One new token after four: widening the token's axis alone would break the sum of lengths."""

    def forward(x: Any, y: Any) -> Any:
        total = torch.cat([y["past"], x], 1)
        return total * y["mask"]

    def inputs(new: int, past: int) -> tuple[Any, ...]:
        mask = torch.ones(2, new + past)
        return torch.zeros(2, new), {"past": torch.zeros(2, past), "mask": mask}

    shapes = ({1: "new"}, {"past": {1: "past"}, "mask": {1: Dim.DYNAMIC}})
    found = imported(Two(forward), inputs(1, 4), shapes, more_inputs=[inputs(3, 4)])
    assert shapes_of(found) == [(2, "new"), (2, "past"), (2, "new + past")]


def test_auto_found_static_is_a_note_with_the_line() -> None:
    weight = torch.ones(3, 3)
    found = imported(One(lambda x: x @ weight), (torch.zeros(2, 3),), ({0: Dim.AUTO, 1: Dim.AUTO},))
    assert shapes_of(found) == [("x_0", 3)]
    note, _ = found.notes
    assert note.startswith("axis 1 of input 'x' is static in this model (test_dynamic_shapes.py:")


def test_auto_of_size_1_that_broadcasts_keeps_its_size() -> None:
    bias = torch.ones(3)
    found = imported(One(lambda x: x + bias), (torch.zeros(2, 1),), ({1: Dim.AUTO},))
    assert shapes_of(found) == [(2, 1)]
    assert len(found.notes) == 1


def fixes_by_branch(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 4:
        return x * 2
    return x


def fixes_by_view(x: torch.Tensor) -> torch.Tensor:
    return x.view(4, 3)


def fixes_by_int(x: torch.Tensor) -> torch.Tensor:
    return x * int(x.shape[0])


@pytest.mark.parametrize("function", [fixes_by_branch, fixes_by_view, fixes_by_int])
def test_a_dynamic_axis_that_the_model_fixes_is_refused_with_the_line(function: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        imported(One(function), (torch.zeros(4, 3),), ({0: BATCH},))
    error = caught.value
    assert error.message == "axis 0 of input 'x' ('batch') was declared dynamic, but the model fixes it to 4"
    line = function.__code__.co_firstlineno + 1
    assert (error.name, error.exit_code, error.where) == (
        "specialised-dim",
        3,
        f"test_dynamic_shapes.py:{line}",
    )


def test_bounds_come_from_the_model_and_from_the_dim() -> None:
    table = torch.zeros(16, 2)
    module = One(lambda x: table[: x.shape[0]] + x)
    assert imported(module, (torch.zeros(5, 2),), ({0: "n"},)).signature.bounds == {"n": Bounds(max=16)}
    limited = imported(module, (torch.zeros(5, 2),), ({0: Dim("n", min=3, max=40)},))
    assert limited.signature.bounds == {"n": Bounds(min=3, max=16)}
    conv = One(lambda x: torch.nn.functional.conv1d(x, torch.ones(1, 1, 3)))
    found = imported(conv, (torch.zeros(1, 1, 9),), ({2: "n"},)).signature.bounds
    assert found["n"].min in (3, 4)  # torch.export also keeps the output from having size 1


def test_a_profile_beyond_what_the_model_allows_is_a_usage_error() -> None:
    table = torch.zeros(16, 2)
    with pytest.raises(UsageError, match="the profile allows 'n' up to 20, the model only up to 16"):
        imported(
            One(lambda x: table[: x.shape[0]] + x),
            (torch.zeros(5, 2),),
            ({0: "n"},),
            profiles=[{"n": (1, 5, 20)}],
        )


def test_shapes_of_outputs_follow_the_dims() -> None:
    found = imported(One(lambda x: x.reshape(x.shape[0] // 2, 2, 4)), (torch.zeros(6, 4),), ({0: "n"},))
    assert found.signature.outputs[0].shape == ("(n//2)", "(n//((n//2)))", 4)
