"""Between which numbers the entries of a value lie, from the operators that compute it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import constant

Interval = tuple[float, float]
UNKNOWN: Interval = (-math.inf, math.inf)
_DEPTH = 32
_SOME_OF_FIRST = {
    *("Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Expand", "Tile", "Transpose", "Slice"),
    *("Gather", "GatherElements", "GatherND", "ReduceMax", "ReduceMin"),
}
_TRUTHS = {
    *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    *("And", "Or", "Xor", "Not", "IsNaN", "IsInf"),
}


def interval(value: ir.Value | None) -> Interval:
    """Return the lowest and the highest number that entries of ``value`` can be, (-inf, inf) if unknown.

    Infinite bounds say nothing: an entry may be infinite itself. NaN is not looked at.
    """
    return _interval(value, _DEPTH)


def _interval(value: ir.Value | None, depth: int) -> Interval:
    if value is None or depth == 0:
        return UNKNOWN
    if (tensor := constant(value)) is not None:
        return _of_array(tensor)
    node = value.producer()
    found = UNKNOWN
    if node is not None and not node.domain:
        found = _of_node(node, depth - 1)
    return _within(found, value.dtype)


def _of_array(tensor: ir.TensorProtocol) -> Interval:
    if tensor.dtype == ir.DataType.STRING or tensor.size == 0:
        return UNKNOWN
    array = tensor.numpy().astype(np.float64)
    low, high = float(array.min()), float(array.max())
    return UNKNOWN if math.isnan(low) or math.isnan(high) else (low, high)


def _within(found: Interval, dtype: ir.DataType | None) -> Interval:
    """Return ``found`` for entries of ``dtype``: integers are finite and may wrap, floats may overflow."""
    if dtype is None or dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return UNKNOWN
    if dtype == ir.DataType.BOOL:
        return 0.0, 1.0
    kind = dtype.numpy()
    if np.issubdtype(kind, np.integer):
        limits = np.iinfo(kind)
        fits = limits.min <= found[0] and found[1] <= limits.max
        return found if fits else (float(limits.min), float(limits.max))
    if np.issubdtype(kind, np.floating):
        most = float(np.finfo(kind).max)
        return (found[0] if found[0] >= -most else -math.inf), (found[1] if found[1] <= most else math.inf)
    return UNKNOWN


def _of_node(node: ir.Node, depth: int) -> Interval:
    def of(index: int) -> Interval:
        return _interval(node.inputs[index] if index < len(node.inputs) else None, depth)

    if node.op_type in _TRUTHS:
        return 0.0, 1.0
    if node.op_type in _SOME_OF_FIRST:
        return of(0)
    if node.op_type == "Where":
        return _union(of(1), of(2))
    if node.op_type in ("Concat", "Max", "Min"):
        parts = [_interval(each, depth) for each in node.inputs]
        if node.op_type == "Concat":
            return min(low for low, _ in parts), max(high for _, high in parts)
        pick = max if node.op_type == "Max" else min
        return pick(low for low, _ in parts), pick(high for _, high in parts)
    if node.op_type == "Clip":
        return _clipped(node, depth)
    if (unary := _UNARY.get(node.op_type)) is not None:
        return unary(of(0))
    if (binary := _BINARY.get(node.op_type)) is not None:
        return binary(of(0), of(1))
    return UNKNOWN


def _union(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _clipped(node: ir.Node, depth: int) -> Interval:
    """Return the bounds of a Clip. A limit that is not known may be anything, one that is absent is none."""
    low, high = (-math.inf, -math.inf), (math.inf, math.inf)
    x, *limits = node.inputs
    if len(limits) > 0 and limits[0] is not None:
        low = _interval(limits[0], depth)
    if len(limits) > 1 and limits[1] is not None:
        high = _interval(limits[1], depth)
    below, above = _interval(x, depth)
    return min(max(below, low[0]), high[0]), min(max(above, low[1]), high[1])


def _rounded(x: Interval) -> Interval:
    """Return the numbers that ``x`` may become in another type, where fractions may be cut off."""
    low, high = x
    return (math.floor(low) if math.isfinite(low) else low), (
        math.ceil(high) if math.isfinite(high) else high
    )


def _sum(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _product(a: Interval, b: Interval) -> Interval:
    if UNKNOWN in (a, b) or any(math.isinf(bound) for bound in (*a, *b)):
        return UNKNOWN
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _negated(a: Interval) -> Interval:
    return -a[1], -a[0]


_UNARY: dict[str, Callable[[Interval], Interval]] = {
    "Cast": _rounded,
    "Neg": _negated,
    "Abs": lambda a: (0.0, max(abs(a[0]), abs(a[1]))),
    "Sigmoid": lambda _: (0.0, 1.0),
    "Softmax": lambda _: (0.0, 1.0),
    "Tanh": lambda _: (-1.0, 1.0),
    "Sin": lambda _: (-1.0, 1.0),
    "Cos": lambda _: (-1.0, 1.0),
}
_BINARY: dict[str, Callable[[Interval, Interval], Interval]] = {
    "Add": _sum,
    "Sub": lambda a, b: _sum(a, _negated(b)),
    "Mul": _product,
}
