"""Mutants of masks: dropped, shifted, read for the wrong row, or read as something simpler."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from mutate_edit import Site, Subject, array_of, bypassed, title, with_input


def mask_dropped(s: Subject) -> Iterator[Site]:
    """Yield attention without its mask, one side of an And alone, and a Where that fills nothing."""
    for node in s.of("Attention"):
        if len(node.inputs) > 3 and node.inputs[3] is not None:
            yield title(node), with_input(node, 3, None)
    for node in s.of("And"):
        yield from ((f"{title(node)}: input {side} alone", bypassed(node, side)) for side in (0, 1))
    for node in s.of("Where"):
        yield from (
            (f"{title(node)}: input {side} alone", bypassed(node, side))
            for side in (1, 2)
            if array_of(node.inputs[side]) is None
        )


def _masks(s: Subject) -> Iterator[tuple[str, ir.Value]]:
    """Yield what masks something: the input of an attention, a condition, bools that are combined."""
    for node in s.of("Attention"):
        if len(node.inputs) > 3 and node.inputs[3] is not None:
            yield title(node), node.inputs[3]
    for node in s.of("Where", "And"):
        if node.inputs[0] is not None and node.inputs[0].producer() is not None:
            yield title(node), node.inputs[0]


def mask_shifted(s: Subject) -> Iterator[Site]:
    """Yield masks whose last axis is off by one."""
    for where, value in _masks(s):
        if value.shape is None or value.shape.rank() == 0 or value.producer() is None:
            continue

        def edit(value: ir.Value = value) -> None:
            s.insert(value, lambda v: _rolled(s, v))

        yield where, edit


def _rolled(s: Subject, value: ir.Value) -> list[ir.Node]:
    last, end, start = (s.constant(np.array([n])) for n in (-1, np.iinfo(np.int64).max, 0))
    tail = ir.node("Slice", [value, last, end, last])
    head = ir.node("Slice", [value, start, last, last])
    return [tail, head, ir.node("Concat", [tail.outputs[0], head.outputs[0]], attributes={"axis": -1})]


def first_row(s: Subject) -> Iterator[Site]:
    """Yield masks of which the first of the batch stands for all."""
    for where, value in _masks(s):
        if value.shape is None or value.shape.rank() < 2 or value.producer() is None:
            continue

        def edit(value: ir.Value = value) -> None:
            s.insert(value, lambda v: _first_for_all(s, v))

        yield where, edit


def _first_for_all(s: Subject, value: ir.Value) -> list[ir.Node]:
    shape = ir.node("Shape", [value])
    bounds = [s.constant(np.array([n])) for n in (0, 1)]
    first = ir.node("Slice", [value, *bounds, s.constant(np.array([0]))])
    return [shape, first, ir.node("Expand", [first.outputs[0], shape.outputs[0]])]


def _flags(s: Subject) -> Iterator[ir.Value]:
    """Yield the inputs of the graph that hold zeros and ones alone, as a padding mask does."""
    for value in s.model.graph.inputs:
        given = s.example.get(str(value.name))
        if given is not None and given.ndim > 1 and given.dtype.kind in "bi" and set(given.flat) <= {0, 1}:
            yield value


def mask_as_length(s: Subject) -> Iterator[Site]:
    """Yield masks of which only the count of ones is read, as if padding always stood at the end."""
    for value in _flags(s):
        yield str(value.name), lambda v=value: s.insert(v, lambda x: _prefix(s, x))


def _prefix(s: Subject, value: ir.Value) -> list[ir.Node]:
    zero, one, last = (s.constant(np.asarray(n)) for n in (0, 1, [-1]))
    whole = ir.node("Cast", [value], attributes={"to": int(ir.DataType.INT64)})
    length = ir.node("ReduceSum", [whole.outputs[0], last], attributes={"keepdims": 1})
    size = ir.node("Shape", [value], attributes={"start": -1})
    scalar = ir.node("Squeeze", [size.outputs[0]])
    index = ir.node("Range", [zero, scalar.outputs[0], one])
    before = ir.node("Less", [index.outputs[0], length.outputs[0]])
    return [
        whole,
        length,
        size,
        scalar,
        index,
        before,
        ir.node("Cast", [before.outputs[0]], attributes={"to": int(value.dtype)}),
    ]


def mask_of_ones(s: Subject) -> Iterator[Site]:
    """Yield graphs that do not look at their mask."""
    for value in _flags(s):

        def make(x: ir.Value) -> list[ir.Node]:
            shape = ir.node("Shape", [x])
            one = s.constant(np.ones((), x.dtype.numpy()))
            return [shape, ir.node("Expand", [one, shape.outputs[0]])]

        yield str(value.name), lambda v=value, m=make: s.insert(v, m)
