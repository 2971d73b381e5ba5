"""Bags of embeddings.

The exporter makes a loop with nested branches, which its own clean-up leaves half removed, and which gives
the last bag another mean. In eager a bag is the sum, mean or maximum of the rows between two offsets; rows of
``padding_idx`` do not count, and an empty bag is 0. See https://github.com/pytorch/pytorch/issues/128930 and
https://github.com/pytorch/pytorch/issues/25469.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.values import constant, filled, ints

_INT64 = ir.DataType.INT64
_SUM, _MEAN, _MAX = 0, 1, 2


def embedding_bag(
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    scale_grad_by_freq: bool = False,  # noqa: ARG001 - aten's own signature
    mode: int = _SUM,
    sparse: bool = False,  # noqa: ARG001
    per_sample_weights: ir.Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Any:
    """Return (bags, and three values that only training reads)."""
    indices, offsets = op.Cast(indices, to=_INT64), op.Cast(offsets, to=_INT64)
    if include_last_offset:
        offsets = op.Slice(offsets, ints(0), ints(-1))
    rows = op.Gather(weight, indices)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, ints(1)))
    counted = filled(True, ir.DataType.BOOL, op.Shape(indices))
    if padding_idx is not None and padding_idx >= 0:
        counted = op.Not(op.Equal(indices, constant(padding_idx, _INT64)))
    bags = _reduce(
        weight, rows, op.Unsqueeze(counted, ints(1)), _bag_of_each(indices, offsets), offsets, mode
    )
    return bags, op.Identity(offsets), op.Identity(offsets), op.Identity(offsets)


def _bag_of_each(indices: Any, offsets: Any) -> Any:
    """Return the number of the bag of each index: how many bags start at or before it, less one."""
    size = op.Shape(indices)
    zeros = filled(0, _INT64, op.Add(size, ints(1)))
    starts = op.ScatterElements(zeros, offsets, filled(1, _INT64, op.Shape(offsets)), axis=0, reduction="add")
    number = op.Sub(op.CumSum(starts, constant(0, _INT64)), constant(1, _INT64))
    return op.Slice(number, ints(0), size)


def _reduce(weight: ir.Value, rows: Any, counted: Any, bag: Any, offsets: Any, mode: int) -> Any:
    dtype = weight.dtype
    width = op.Shape(weight, start=1, end=2)
    shape = op.Concat(op.Shape(offsets), width, axis=0)
    places = op.Expand(op.Unsqueeze(bag, ints(1)), op.Shape(rows))
    lowest = constant(float("-inf"), dtype)
    zero = constant(0, dtype)
    if mode == _MAX:
        kept = op.Where(counted, rows, lowest)
        start = filled(float("-inf"), dtype, shape)
        best = op.ScatterElements(start, places, kept, axis=0, reduction="max")
        return op.Where(op.Equal(best, lowest), zero, best)
    kept = op.Where(counted, rows, zero)
    total = op.ScatterElements(filled(0, dtype, shape), places, kept, axis=0, reduction="add")
    if mode == _SUM:
        return total
    ones = op.Expand(op.Cast(counted, to=dtype), op.Shape(rows))
    count = op.ScatterElements(filled(0, dtype, shape), places, ones, axis=0, reduction="add")
    return op.Div(total, op.Max(count, constant(1, dtype)))


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    import torch

    aten = torch.ops.aten
    return {
        aten.embedding_bag.default: embedding_bag,
        aten.embedding_bag.padding_idx: embedding_bag,
        aten._embedding_bag.default: embedding_bag,
        aten._embedding_bag_forward_only.default: embedding_bag,
    }
