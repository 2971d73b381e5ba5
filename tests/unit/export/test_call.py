"""From nested arguments to flat tensors and back, through torch.export: names, structure, constants."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from tiny_models import Call, source
from torch.export import Dim

from aotc.errors import InputError, RefusedError, UsageError
from aotc.export.call import bind, rebuild
from aotc.export.importer import Imported, import_module

T = torch.randn(2, 3)
U = torch.randn(2, 3)
Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


class Mode(enum.Enum):
    FAST = "fast"


class Speed(enum.IntEnum):
    SLOW = 1


def run(imported: Imported, *args: Any, **kwargs: Any) -> Any:
    """Run the imported graph as an engine does."""
    signature = imported.signature
    flat = signature.flatten_call(*args, **kwargs)
    feeds = {name: np.asarray(value) for name, value in flat.items()}
    signature.check(feeds)
    session = onnxruntime.InferenceSession(
        ir.to_proto(imported.model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [spec.name for spec in signature.outputs]
    return signature.unflatten_result(dict(zip(names, session.run(names, feeds), strict=True)))


def imported(function: Callable[..., Any], inputs: Any, dynamic_shapes: Any = None, **state: Any) -> Imported:
    module = Call(function, **state).eval()
    return import_module(module, source(module, inputs, dynamic_shapes))


class Everything(torch.nn.Module):
    def forward(self, a: Any, b: Any = None, *rest: Any, flag: bool = True, k: Any, **more: Any) -> Any:
        total = a["t"][0] + b.x * b.y[0].first + rest[0] - rest[1]["z"] + k + more["q"]
        return {
            "total": total if flag else -total,
            "pair": Pair(a["t"][1] * 2, None),
            "point": Point(k - 1, [a["n"], b.y[1]]),
            "list": [rest[0], (more["q"] + 1,)],
        }


def everything(a: torch.Tensor, b: torch.Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = ({"t": (a, b), "n": 3}, Point(a + 1, (Pair(b, None), "text")), b - 1, {"z": a * 2})
    return args, {"flag": False, "k": b + 2, "q": a - 3}


@pytest.fixture(scope="module")
def all_kinds() -> Imported:
    module = Everything().eval()
    args, kwargs = everything(T, U)
    # A tuple cannot give keywords, so forward takes them in one argument here.
    wrapped = Call(lambda self, args, kwargs: self.inner(*args, **kwargs), inner=module).eval()
    return import_module(wrapped, source(wrapped, (args, kwargs)))


def test_names_of_nested_inputs_and_outputs(all_kinds: Imported) -> None:
    names = [spec.name for spec in all_kinds.signature.inputs]
    assert names == [
        *("args.0.0.t.0", "args.0.0.t.1", "args.0.1.x", "args.0.1.y.0.first", "args.0.2", "args.0.3.z"),
        *("args.1.k", "args.1.q"),
    ]
    assert [value.name for value in all_kinds.model.graph.inputs] == names
    outputs = [spec.name for spec in all_kinds.signature.outputs]
    assert outputs == ["total", "pair.first", "point.x", "list.0", "list.1.0"]
    assert [value.name for value in all_kinds.model.graph.outputs] == outputs


@pytest.mark.parametrize("numpy", [False, True])
def test_nested_values_round_trip(all_kinds: Imported, numpy: bool) -> None:
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    args, kwargs = everything(a, b)
    want = Everything()(*args, **kwargs)
    if numpy:
        args, kwargs = everything(a.numpy(), b.numpy())  # type: ignore[arg-type]
    got = run(all_kinds, args, kwargs)
    np.testing.assert_allclose(got["total"], want["total"], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(got["pair"].first, want["pair"].first)
    assert got["pair"].second is None
    np.testing.assert_array_equal(got["point"].x, want["point"].x)
    assert got["point"].y == [3, "text"]
    np.testing.assert_array_equal(got["list"][0], want["list"][0])
    assert isinstance(got["list"][1], tuple)


def test_a_constant_changed_at_run_time_is_an_input_error(all_kinds: Imported) -> None:
    args, kwargs = everything(T, U)
    with pytest.raises(InputError, match=r"args\.1\.flag was frozen as False .* cannot be True"):
        run(all_kinds, args, kwargs | {"flag": True})


class Signed(torch.nn.Module):
    def forward(self, x: Any, scale: float = 2.0, *rest: Any, k: Any = None, **more: Any) -> Any:
        out = x * scale
        for item in rest:
            out = out + item
        return out - (0 if k is None else k) + (more["z"] if more else 0)


def test_parameters_of_every_kind() -> None:
    module = Signed().eval()
    by_name = import_module(module, source(module, {"x": T, "k": U, "z": T + 1}))
    assert [(a.name, a.kind) for a in by_name.signature.arguments] == [
        ("x", "positional"),
        ("k", "keyword"),
        ("z", "keyword"),
    ]
    np.testing.assert_allclose(run(by_name, T, k=U, z=U), module(T, k=U, z=U), rtol=1e-6)
    by_position = import_module(module, source(module, (T, 3.0, U, T)))
    assert [spec.name for spec in by_position.signature.inputs] == ["x", "rest.0", "rest.1"]
    np.testing.assert_allclose(run(by_position, U, 3.0, T, T), module(U, 3.0, T, T), rtol=1e-6)
    with pytest.raises(InputError, match=r"scale was frozen as 3\.0"):
        run(by_position, U, 2.0, T, T)


def test_a_default_that_was_not_given_is_not_an_argument() -> None:
    module = Signed().eval()
    plain = import_module(module, source(module, (T,)))
    assert [argument.name for argument in plain.signature.arguments] == ["x"]
    np.testing.assert_array_equal(run(plain, U), U * 2)
    with pytest.raises(InputError):
        run(plain, U, 2.0)


def test_unused_inputs_stay_and_the_same_tensor_twice_is_two_inputs() -> None:
    found = imported(lambda self, x, y, unused: x - y, (T, T, U))
    assert [spec.name for spec in found.signature.inputs] == ["args.0", "args.1", "args.2"]
    np.testing.assert_array_equal(run(found, T, U, U), T - U)


def test_an_input_or_a_weight_returned_as_it_is_and_one_output_twice() -> None:
    def forward(self: Any, x: torch.Tensor) -> Any:
        y = x + 1
        return x, y, y, self.w, self.w

    found = imported(forward, (T,), w=torch.nn.Parameter(U))
    names = [value.name for value in found.model.graph.outputs]
    assert len({*names, *(value.name for value in found.model.graph.inputs)}) == 6
    got = run(found, U)
    for index, want in enumerate((U, U + 1, U + 1, U, U)):
        np.testing.assert_array_equal(got[index], want.detach())


def test_an_output_that_is_called_like_an_input_gets_another_name() -> None:
    module = Call(lambda self, x: {"args": [x + 1], "args.0": x, "output": {"args.0": x + 2}})
    with pytest.raises(RefusedError, match=r"two tensors would both be called 'args\.0'"):
        import_module(module.eval(), source(module, (T,)))
    found = imported(lambda self, x: {"args.0": x + 1, "output": {"args.0": x + 2}}, (T,))
    assert [spec.name for spec in found.signature.outputs] == ["output.output.args.0", "output.args.0"]
    got = run(found, U)
    np.testing.assert_array_equal(got["args.0"], U + 1)
    np.testing.assert_array_equal(got["output"]["args.0"], U + 2)


def test_zero_dim_tensors_keep_rank_zero() -> None:
    found = imported(lambda self, x, s: (x * s, s + 1), (T, torch.tensor(2.0)))
    assert [spec.shape for spec in (*found.signature.inputs, *found.signature.outputs)] == [
        *((2, 3), (), (2, 3), ())
    ]
    got = run(found, T.numpy(), np.array(3.0, np.float32))
    np.testing.assert_array_equal(got[0], T * 3)
    assert got[1] == np.float32(4.0)


def test_forward_gets_the_enum_member_not_its_value() -> None:
    found = imported(lambda self, x, speed: x * (2 if speed is Speed.SLOW else 3), (T, Speed.SLOW))
    np.testing.assert_array_equal(run(found, T, 1), T * 2)
    args, _ = rebuild(found.call, found.call.flat)
    assert args[1] is Speed.SLOW


def test_rebuild_returns_the_classes_that_forward_expects() -> None:
    call = bind(Call(lambda self, a, b: a), (Point(T, [U]), Pair(T, None)))
    args, _ = rebuild(call, {name: name for name in call.flat})
    assert args == (Point("args.0.x", ["args.0.y.0"]), Pair("args.1.first", None))


def test_parameters_may_be_called_like_the_temporary_names() -> None:
    parts = {"input": torch.nn.ParameterList([T]), "output": torch.nn.ParameterList([U])}
    found = imported(lambda self, x: (x + self.input[0], x * self.output[0]), (T,), **parts)
    got = run(found, U)
    np.testing.assert_allclose(got[0], U + T, rtol=1e-6)
    np.testing.assert_allclose(got[1], U * U, rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((T.numpy(),), "the example input 'args.0' is a ndarray, not a torch tensor"),
        ((np.float32(1.0), T), "the example input 'args.0' is a float32, not a torch tensor"),
        ("text", "inputs\\(\\) must return a tuple of arguments or a dict"),
        ((), "the example inputs hold no tensor"),
        ((1, None), "the example inputs hold no tensor"),
    ],
)
def test_unusable_example_inputs(inputs: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        imported(lambda self, x, y=None: x, inputs)
    assert caught.value.name == "source"


def test_inputs_that_forward_does_not_take() -> None:
    module = Signed().eval()
    with pytest.raises(
        UsageError, match="does not take the example inputs: missing a required argument: 'x'"
    ):
        import_module(module, source(module, {"k": T}))


def test_inputs_that_eager_refuses_say_where() -> None:
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        assert torch.compiler.is_compiling(), "only eager"
        return x

    with pytest.raises(UsageError, match="eager refuses the example inputs: AssertionError") as caught:
        imported(forward, (T,))
    assert (caught.value.name, caught.value.exit_code) == ("eager-refuses", 2)
    assert str(caught.value.where).startswith("test_call.py:")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda self, x: None, "forward returns no tensor"),
        (lambda self, x: {1, 2}, "output is of the type set"),
        (lambda self, x: {"a.b": x, "a": {"b": x}}, "two tensors would both be called 'a.b'"),
        (lambda self, x: {0: x}, "keys that are not strings"),
        (lambda self, x: (x, float("nan")), "output.1 is the constant nan"),
    ],
)
def test_results_that_have_no_signature(function: Any, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        imported(function, (T,))


def test_sizes_in_the_result_are_refused_where_they_depend_on_the_input() -> None:
    with pytest.raises(RefusedError, match=r"output\.1 is of the type SymInt"):
        imported(lambda self, x: (x, x.shape[0]), (T,), {"args": ({0: Dim.DYNAMIC},)})
    assert run(imported(lambda self, x: (x, x.shape[0]), (T,)), T)[1] == 2
