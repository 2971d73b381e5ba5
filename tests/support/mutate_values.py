"""Mutants of numbers: weights, biases, tables and the constants of formulas."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from mutate_edit import FLOATS, Array, Site, Subject, array_of, changed, set_array, title

_SMALL = 1e-2
"""A constant below this that is added to something is an epsilon."""
_GATES = {"LSTM": 4, "GRU": 3}


def weights(s: Subject) -> list[ir.Value]:
    """Return the tensors of floats with more than one entry, not all of them equal."""
    found = [v for v in s.constants if v.const_value is not None and v.const_value.dtype in FLOATS]
    return [v for v in found if v.const_value is not None and v.const_value.size > 1]


def scaled(s: Subject) -> Iterator[Site]:
    """Yield each weight tensor times 1.01."""
    for value in weights(s):
        yield str(value.name), changed(value, lambda a: a * 1.01)


def one_element(s: Subject) -> Iterator[Site]:
    """Yield one element of each weight tensor, moved by a tenth of the largest."""
    for value in weights(s):
        index = int(s.rng.integers(value.const_value.size))

        def change(array: Array, index: int = index) -> Array:
            array.flat[index] += 0.1 * np.abs(array).max() or 0.1
            return array

        yield f"{value.name}[{index}]", changed(value, change)


def one_row(s: Subject) -> Iterator[Site]:
    """Yield tables with one row negated: an entry that few inputs look up."""
    for node in s.of("Gather"):
        value = node.inputs[0]
        if value in weights(s) and node.attributes.get_int("axis", 0) == 0:
            row = int(s.rng.integers(value.const_value.shape[0]))

            def change(array: Array, row: int = row) -> Array:
                array[row] = -array[row]
                return array

            yield f"{value.name}[{row}]", changed(value, change)


def through_half(s: Subject) -> Iterator[Site]:
    """Yield weight tensors rounded to fp16."""
    for value in weights(s):
        yield str(value.name), changed(value, lambda a: a.astype(np.float16))


def bias_lost(s: Subject) -> Iterator[Site]:
    """Yield vectors that are added to something, as zeros."""
    positions = {"Add": (0, 1), "Gemm": (2,), "Conv": (2,), "ConvTranspose": (2,), "LayerNormalization": (2,)}
    positions |= {"LSTM": (3,), "GRU": (3,), "RNN": (3,), "GroupNormalization": (2,)}
    for node in s.of(*positions):
        for index in positions[node.op_type]:
            value = node.inputs[index] if len(node.inputs) > index else None
            if value in weights(s) and array_of(value).any():
                yield f"{value.name} of {title(node)}", changed(value, np.zeros_like)


def rows_shifted(s: Subject) -> Iterator[Site]:
    """Yield weights whose rows are off by one: positions, channels, classes."""
    for value in weights(s):
        if value.const_value.shape[0] > 1:
            yield str(value.name), changed(value, lambda a: np.roll(a, 1, axis=0))


def transposed(s: Subject) -> Iterator[Site]:
    """Yield square matrices in the other layout."""
    for value in weights(s):
        shape = tuple(value.const_value.shape.numpy())
        if len(shape) > 1 and shape[-1] == shape[-2]:
            yield str(value.name), changed(value, lambda a: a.swapaxes(-1, -2))


def filter_flipped(s: Subject) -> Iterator[Site]:
    """Yield filters of convolutions back to front."""
    for node in s.of("Conv", "ConvTranspose"):
        value = node.inputs[1]
        if value in weights(s) and value.const_value.shape[-1] > 1:
            yield str(value.name), changed(value, lambda a: a[..., ::-1])


def weights_swapped(s: Subject) -> Iterator[Site]:
    """Yield pairs of tensors of one shape, each in the other's place."""
    by_shape: dict[tuple[int, ...], list[ir.Value]] = {}
    for value in weights(s):
        by_shape.setdefault(tuple(value.const_value.shape.numpy()), []).append(value)
    for one, two in itertools.chain.from_iterable(map(itertools.pairwise, by_shape.values())):

        def edit(one: ir.Value = one, two: ir.Value = two) -> None:
            first, second = array_of(one), array_of(two)
            set_array(one, second)
            set_array(two, first)

        yield f"{one.name} and {two.name}", edit


def gates_swapped(s: Subject) -> Iterator[Site]:
    """Yield the weights of recurrent layers with the first two gates swapped."""
    for node in s.of(*_GATES):
        for value in node.inputs[1:3]:
            if value in weights(s):

                def change(array: Array, gates: int = _GATES[node.op_type]) -> Array:
                    parts = np.split(array, gates, axis=1)
                    return np.concatenate([parts[1], parts[0], *parts[2:]], axis=1)

                yield str(value.name), changed(value, change)


def _scalars(s: Subject) -> Iterator[tuple[ir.Node, ir.Value, float]]:
    """Yield numbers that stand in a formula, with a node that reads them."""
    for node in s.of("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Clip", "Where"):
        for value in node.inputs:
            array = array_of(value)
            if array is not None and array.size == 1 and array.dtype.kind == "f":
                yield node, value, float(array.reshape(-1)[0])


def number(s: Subject) -> Iterator[Site]:
    """Yield the numbers of formulas times 1.01: scales, slopes, limits, the coefficients of a Gelu."""
    for node, value, content in _scalars(s):
        if np.isfinite(content) and abs(content) >= _SMALL:
            yield f"{content:.6g} in {title(node)}", changed(value, lambda a: a * 1.01)


def epsilon(s: Subject) -> Iterator[Site]:
    """Yield the small numbers that are added, times 10."""
    for node, value, content in _scalars(s):
        if node.op_type in ("Add", "Max", "Clip") and 0 < content < _SMALL:
            yield f"{content:.6g} in {title(node)}", changed(value, lambda a: a * 10)


def fill_value(s: Subject) -> Iterator[Site]:
    """Yield the fill of a masked position: 0 for minus infinity."""
    for node, value, content in _scalars(s):
        if content < -1e3:
            yield f"{content:.6g} in {title(node)}", changed(value, np.zeros_like)


_COUNTS = {"Slice": (1, 2, 4), "Gather": (1,), "Trilu": (1,), "Range": (0, 1), "Add": (0, 1), "Sub": (0, 1)}
_COUNTS |= {"Less": (0, 1), "LessOrEqual": (0, 1), "Greater": (0, 1), "GreaterOrEqual": (0, 1)}
_COUNTS |= {"Min": (0, 1), "Max": (0, 1), "CumSum": (1,), "Where": (1, 2), "TopK": (1,), "Pad": (1,)}


def off_by_one(s: Subject) -> Iterator[Site]:
    """Yield integer constants plus one: where a slice begins, which entry is taken, from where it counts."""
    for node in s.of(*_COUNTS):
        for index in _COUNTS[node.op_type]:
            value = node.inputs[index] if len(node.inputs) > index else None
            array = array_of(value)
            if array is not None and array.dtype.kind == "i" and 0 < array.size < 9:
                yield f"input {index} of {title(node)}", _only_here(s, node, index, array + 1)


def axes(s: Subject) -> Iterator[Site]:
    """Yield reductions over the axis beside their own."""
    for node in s.of("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd"):
        array = array_of(node.inputs[1]) if len(node.inputs) > 1 else None
        if array is not None and array.size == 1:
            moved = np.where(array == 0, 1, array - 1)
            yield title(node), _only_here(s, node, 1, moved)


def _only_here(s: Subject, node: ir.Node, index: int, array: Array):
    """Return the edit that gives one input of one node other numbers: its constant may be shared."""
    return lambda: node.replace_input_with(index, s.constant(array))
