"""A proof that the entries of an integer value are never negative, from the operators that compute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import constant

MOST_ENTRIES = 2**31
"""Entries of an axis, or of a tensor: more does not fit into memory with anything beside it."""
_POSITIONS = {("Shape", 0), ("Size", 0), ("NonZero", 0), ("ArgMax", 0), ("ArgMin", 0), ("TopK", 1)}
"""Operators whose output (by position) counts or names positions."""
_SOME_OF_FIRST = {
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
    "ReduceMax",
    "ReduceMin",
}
_SUMS_OF_FIRST = {"CumSum", "ReduceSum"}
_DEPTH = 64


def is_nonnegative(value: ir.Value | None, known: Mapping[str, int] | None = None) -> bool:
    """Return whether every entry of ``value`` is proven to be at least 0.

    Args:
        value: An integer or bool value.
        known: Graph inputs that are checked to be at least 0, and the most that they may hold.
    """
    return _largest(value, known or {}, _DEPTH) is not None


def _largest(value: ir.Value | None, known: Mapping[str, int], depth: int) -> int | None:
    """Return a number that no entry of ``value`` exceeds, if all are proven to be at least 0; else None.

    Without an upper bound nothing is proven of a sum, which may wrap around.
    """
    if value is None or depth == 0:
        return None
    if (tensor := constant(value)) is not None:
        array = tensor.numpy()
        return int(array.max(initial=0)) if bool((array >= 0).all()) else None
    if value.is_graph_input() and str(value.name) in known:
        return known[str(value.name)]
    node = value.producer()
    found = None
    if node is not None and not node.domain:
        found = (
            MOST_ENTRIES if (node.op_type, value.index()) in _POSITIONS else _of_node(node, known, depth - 1)
        )
    limit = _limit(value)
    if found is None or (limit is not None and found > limit):
        return limit if limit is not None and _is_unsigned(value) else None
    return found


def _of_node(node: ir.Node, known: Mapping[str, int], depth: int) -> int | None:
    parts = [_largest(each, known, depth) for each in node.inputs]
    first = parts[0] if parts else None
    if node.op_type in _SOME_OF_FIRST:
        return first
    if node.op_type in _SUMS_OF_FIRST:
        return first * MOST_ENTRIES if first is not None else None
    if (combined := _OF_ALL.get(node.op_type)) is not None:
        return _all(parts, combined)
    special = _SPECIAL.get(node.op_type)
    return special(node, parts) if special is not None else None


_OF_ALL: dict[str, Callable[[list[int]], int]] = {
    "Add": sum,
    "Concat": max,
    "Div": lambda parts: parts[0],
    "Min": min,
    "Mod": max,
    "Mul": math.prod,
    "Sum": sum,
}


def _all(parts: Sequence[int | None], combine: Callable[[list[int]], int]) -> int | None:
    numbers = [part for part in parts if part is not None]
    return combine(numbers) if len(numbers) == len(parts) else None


def _max(node: ir.Node, parts: list[int | None]) -> int | None:
    """One part that is not negative is enough; how large the others are only their type says."""
    if all(part is None for part in parts):
        return None
    return _all(parts, max) if None not in parts else _limit(node.outputs[0])


def _where(_: ir.Node, parts: list[int | None]) -> int | None:
    return _all(parts[1:], max)


def _cast(node: ir.Node, parts: list[int | None]) -> int | None:
    source = node.inputs[0]
    whole = source is not None and source.dtype is not None and not source.dtype.is_floating_point()
    return parts[0] if whole else None


def _clip(node: ir.Node, parts: list[int | None]) -> int | None:
    if len(parts) < 2 or parts[1] is None:
        return None
    high = constant(node.inputs[2]) if len(parts) > 2 else None
    return int(high.numpy().max()) if high is not None else _limit(node.outputs[0])


def _range(node: ir.Node, parts: list[int | None]) -> int | None:
    step = constant(node.inputs[2])
    rising = step is not None and bool(np.all(step.numpy() > 0))
    if not rising or parts[0] is None:
        return None
    return parts[1] if parts[1] is not None else _limit(node.outputs[0])


_SPECIAL = {"Cast": _cast, "Clip": _clip, "Max": _max, "Range": _range, "Where": _where}


def _limit(value: ir.Value) -> int | None:
    """Return the largest number of the type of ``value``, if that is known and whole."""
    if value.dtype is None:
        return None
    if value.dtype == ir.DataType.BOOL:
        return 1
    return int(np.iinfo(value.dtype.numpy()).max) if value.dtype.is_integer() else None


def _is_unsigned(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.BOOL or str(value.dtype).startswith("UINT")
