"""nn.RNN, nn.GRU and nn.LSTM.

torch.export unrolls them: a node for every step, so the length is fixed, and the exporter fixes the batch.
Here they stay one operator each while the model is traced, and become ONNX's RNN, GRU and LSTM, layer by
layer. The order of gates differs: GRU is (reset, update, new) in torch and (update, reset, new) in ONNX, LSTM
(in, forget, cell, out) and (in, out, forget, cell). In torch the reset gate is applied after the product with
the hidden state, which is ``linear_before_reset=1``.

Only float32 without projections; packed sequences are unrolled as before, which needs fixed lengths.
See https://github.com/pytorch/pytorch/issues/189225 and https://github.com/microsoft/onnxruntime/issues/19270.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.errors import RefusedError
from aotc.export.refusals import current_line
from aotc.export.translations.values import ints

if TYPE_CHECKING:
    import torch

_GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2), "RNN": (0,)}
_ARGUMENTS = "Tensor[] params, bool biases, int layers, bool bidirectional, bool batch_first"
_STATES = {"gru": 1, "rnn_tanh": 1, "rnn_relu": 1, "lstm": 2}


def gru(*args: Any) -> Any:
    """Return (all hidden states, the last of each layer)."""
    return _layers("GRU", *args, linear_before_reset=1)


def lstm(*args: Any) -> Any:
    """Return (all hidden states, the last of each layer, the last cell of each layer)."""
    return _layers("LSTM", *args)


def rnn_tanh(*args: Any) -> Any:
    """Return (all hidden states, the last of each layer)."""
    return _layers("RNN", *args)


def rnn_relu(*args: Any) -> Any:
    """Return (all hidden states, the last of each layer)."""
    return _layers("RNN", *args, activations=["Relu"] * (2 if args[5] else 1))


def _layers(
    kind: str,
    x: ir.Value,
    states: Sequence[ir.Value],
    params: Sequence[ir.Value],
    biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
    **attributes: Any,
) -> Any:
    directions = 2 if bidirectional else 1
    per_layer = (4 if biases else 2) * directions
    assert states[0].shape is not None
    hidden = int(states[0].shape[2])  # type: ignore[arg-type]
    y: Any = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    last: list[list[Any]] = [[] for _ in states]
    for layer in range(layers):
        packed = _packed(kind, params[layer * per_layer : (layer + 1) * per_layer], biases)
        first = [
            op.Slice(state, ints(layer * directions), ints((layer + 1) * directions), ints(0))
            for state in states
        ]
        y, *found = getattr(op, kind)(
            y,
            *packed,
            None,
            *first,
            direction="bidirectional" if bidirectional else "forward",
            hidden_size=hidden,
            **attributes,
        )
        # (length, directions, batch, hidden) -> (length, batch, directions x hidden)
        y = op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), ints(0, 0, directions * hidden))
        for state, value in zip(last, found, strict=True):
            state.append(value)
    y = op.Transpose(y, perm=[1, 0, 2]) if batch_first else y
    return y, *(op.Concat(*state, axis=0) if layers > 1 else state[0] for state in last)


def _packed(kind: str, params: Sequence[ir.Value], biases: bool) -> tuple[Any, Any, Any]:
    """Return the weights of the input and of the state, and the biases of both, of all directions."""
    count = 4 if biases else 2
    each = [[_reordered(kind, p) for p in params[i : i + count]] for i in range(0, len(params), count)]
    inputs, states = (_stacked([direction[i] for direction in each]) for i in (0, 1))
    both = [op.Concat(direction[2], direction[3], axis=0) for direction in each] if biases else []
    return inputs, states, _stacked(both) if biases else None


def _reordered(kind: str, weight: ir.Value) -> Any:
    order = _GATES[kind]
    if len(order) == 1:
        return weight
    assert weight.shape is not None
    size = int(weight.shape[0]) // len(order)  # type: ignore[arg-type]
    return op.Concat(
        *(op.Slice(weight, ints(i * size), ints((i + 1) * size), ints(0)) for i in order), axis=0
    )


def _stacked(values: list[Any]) -> Any:
    parts = [op.Unsqueeze(value, ints(0)) for value in values]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


@functools.cache
def _operators() -> dict[str, Any]:
    """Define one operator a kind, which tracing takes as a whole, and which runs as torch's own."""
    import torch

    def shapes(x: torch.Tensor, states: list[torch.Tensor], *args: Any) -> Any:
        bidirectional = args[3]
        width = states[0].shape[2] * (2 if bidirectional else 1)
        return x.new_empty((*x.shape[:2], width)), *(state.new_empty(state.shape) for state in states)

    def run(name: str, x: Any, states: Any, params: Any, biases: bool, layers: int, *rest: bool) -> Any:
        first = states if name == "lstm" else states[0]
        return getattr(torch, name)(x, first, params, biases, layers, 0.0, False, *rest)

    for name, states in _STATES.items():
        returns = ", ".join(["Tensor"] * (1 + states))
        torch.library.define(f"aotc::{name}", f"(Tensor x, Tensor[] states, {_ARGUMENTS}) -> ({returns})")
        torch.library.register_fake(f"aotc::{name}", shapes)
        torch.library.impl(f"aotc::{name}", "CPU", functools.partial(run, name))
    return {name: getattr(torch.ops.aotc, name).default for name in _STATES}


def whole_operators() -> contextlib.AbstractContextManager[Any]:
    """Keep recurrent layers whole while a model is traced."""
    import torch
    from torch.overrides import TorchFunctionMode

    operators = {getattr(torch, name): operator for name, operator in _operators().items()}

    class Whole(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            if func in operators and (call := _whole_call(func.__name__, *args, **(kwargs or {}))):
                return operators[func](*call)
            return func(*args, **(kwargs or {}))

    return Whole()


def _whole_call(
    name: str, x: torch.Tensor, states: Any, params: Any, *rest: Any, **kwargs: Any
) -> tuple[Any, ...] | None:
    """Return the arguments of our operator; None for packed sequences, which have other arguments.

    Raises:
        RefusedError: No kernel: another dtype, projections.
    """
    if kwargs or not isinstance(params, list | tuple) or len(rest) != 6:
        return None
    biases, layers, _, training, bidirectional, batch_first = rest
    states = list(states) if isinstance(states, list | tuple) else [states]
    if training:
        return None
    kind = name.partition("_")[0].upper()
    if (dtype := str(x.dtype).removeprefix("torch.")) != "float32":
        raise _no_kernel(f"{kind} in {dtype}", "cast its input and weights to float32")
    if len({state.shape[2] for state in states}) > 1:
        raise _no_kernel(f"{kind} with projections (proj_size)", "put a Linear layer behind it")
    return x, states, list(params), biases, layers, bidirectional, batch_first


def _no_kernel(what: str, hint: str) -> RefusedError:
    return RefusedError(
        f"{what} has no kernel in ONNX Runtime", slug="unsupported-operator", where=current_line(), hint=hint
    )


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    functions = {"gru": gru, "lstm": lstm, "rnn_tanh": rnn_tanh, "rnn_relu": rnn_relu}
    return {operator: functions[name] for name, operator in _operators().items()}
