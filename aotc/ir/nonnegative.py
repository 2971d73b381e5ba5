"""A proof that the entries of an integer value are never negative, from the operators that compute it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import constant

_ALWAYS = {("Shape", 0), ("Size", 0), ("NonZero", 0), ("ArgMax", 0), ("ArgMin", 0), ("TopK", 1)}
"""Operators whose output (by position) counts or names positions."""
_ALL = {"Add", "Mul", "Min", "Concat", "Sum"}
_FIRST = {
    "Identity",
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "Flatten",
    "Expand",
    "Tile",
    "Transpose",
    "Slice",
    "Split",
    "Gather",
    "GatherElements",
    "GatherND",
    "CumSum",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
}
_DEPTH = 64


def is_nonnegative(value: ir.Value | None, known: Collection[str] = (), depth: int = _DEPTH) -> bool:
    """Return whether every entry of ``value`` is proven to be at least 0.

    Sums and products of such values are taken to stay below the largest integer, as sizes and positions do.

    Args:
        value: An integer or bool value.
        known: Names of graph inputs that are checked to be at least 0.
        depth: How many operators to follow.
    """
    if value is None or depth == 0:
        return False
    if value.dtype is not None and (value.dtype == ir.DataType.BOOL or str(value.dtype).startswith("UINT")):
        return True
    if (tensor := constant(value)) is not None:
        return bool((tensor.numpy() >= 0).all())
    if value.is_graph_input():
        return value.name in known
    node = value.producer()
    if node is None or node.domain:
        return False
    return (node.op_type, value.index()) in _ALWAYS or _from_inputs(node, known, depth - 1)


def _from_inputs(node: ir.Node, known: Collection[str], depth: int) -> bool:
    inputs = node.inputs
    match node.op_type:
        case op if op in _FIRST:
            return is_nonnegative(inputs[0], known, depth)
        case op if op in _ALL:
            return all(is_nonnegative(each, known, depth) for each in inputs)
        case "Max":
            return any(is_nonnegative(each, known, depth) for each in inputs)
        case "Cast":
            source = inputs[0]
            whole = source is not None and source.dtype is not None and not source.dtype.is_floating_point()
            return whole and is_nonnegative(source, known, depth)
        case "Where":
            return all(is_nonnegative(each, known, depth) for each in inputs[1:])
        case "Clip":
            low = inputs[1] if len(inputs) > 1 else None
            return is_nonnegative(low, known, depth)
        case "Range":
            step = constant(inputs[2])
            rising = step is not None and bool(np.all(step.numpy() > 0))
            return rising and is_nonnegative(inputs[0], known, depth)
        case "Mod" | "Div":
            return all(is_nonnegative(each, known, depth) for each in inputs)
    return False
