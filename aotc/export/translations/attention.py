"""Scaled dot product attention.

The exporter takes rank 4 only, refuses ``enable_gqa`` where it changes nothing, and heads or batches that
broadcast. In eager any rank of at least 2 goes, and a query that may attend to no key gives 0. ONNX Runtime
takes float32's minimum in a mask for "no key"; in eager it is a number, so that a row full of it weighs all
keys alike. See https://github.com/pytorch/pytorch/pull/159973 and
https://github.com/microsoft/onnxruntime/issues/28904.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.values import constant, ints, is_float, rank


def attention(
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attn_mask: ir.Value | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - a forward that drops is refused before
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Return the attention of ``query`` over ``key`` and ``value``, of shape (..., queries, value size)."""
    ranks = {rank(query), rank(key), rank(value)}
    if ranks == {4} and _one_operator(query, key, value, enable_gqa):
        return _attention(query, key, value, attn_mask, is_causal, scale)
    if ranks in ({2}, {3}) and query.dtype != ir.DataType.DOUBLE and _same(query, key, value):
        axes = ints(*range(4 - rank(query)) if rank(query) == 2 else [1])
        wide = (op.Unsqueeze(v, axes) for v in (query, key, value))
        mask = attn_mask
        if mask is not None and rank(mask) == 3:
            mask = op.Unsqueeze(mask, ints(1))
        lowered = _lifted_mask(mask, attn_mask)
        return op.Squeeze(op.Attention(*wide, lowered, scale=scale, is_causal=int(is_causal))[0], axes)
    if enable_gqa:
        raise NotImplementedError("enable_gqa with these ranks or dtypes")
    return _spelled_out(query, key, value, attn_mask, is_causal, scale)


def _attention(
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    mask: ir.Value | None,
    is_causal: bool,
    scale: float | None,
) -> Any:
    return op.Attention(query, key, value, _lifted_mask(mask, mask), scale=scale, is_causal=int(is_causal))[0]


def _lifted_mask(mask: Any, original: ir.Value | None) -> Any:
    """Return an additive mask with half the minimum in place of the minimum: as small, and still a number."""
    if original is None or not is_float(original.dtype):
        return mask
    lowest = float(original.dtype.min)  # type: ignore[union-attr]
    return op.Where(
        op.Equal(mask, constant(lowest, original.dtype)), constant(lowest / 2, original.dtype), mask
    )


def _one_operator(query: ir.Value, key: ir.Value, value: ir.Value, grouped: bool) -> bool:
    """Return whether ONNX's Attention means the same: equal batches, and heads that it may repeat."""
    heads = [v.shape[1] for v in (query, key, value)]  # type: ignore[index]
    if query.dtype == ir.DataType.DOUBLE or not _same(query, key, value):
        return False
    if heads[0] == heads[1] == heads[2]:
        return True
    return grouped and heads[1] == heads[2]


def _same(query: ir.Value, key: ir.Value, value: ir.Value) -> bool:
    """Return whether all have the same batch."""
    batches = [v.shape[0] for v in (query, key, value)] if rank(query) > 2 else []  # type: ignore[index]
    return all(batch == batches[0] for batch in batches)


def _spelled_out(
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    mask: ir.Value | None,
    is_causal: bool,
    scale: float | None,
) -> Any:
    """softmax(query key^T scale + mask) value, where a row of minus infinity gives 0."""
    dtype = query.dtype
    size = query.shape[-1]  # type: ignore[index]
    factor = scale if scale is not None else 1 / math.sqrt(int(size))  # type: ignore[arg-type]
    order = [*range(rank(key) - 2), rank(key) - 1, rank(key) - 2]
    scores = op.Mul(op.MatMul(query, op.Transpose(key, perm=order)), constant(factor, dtype))
    never = constant(float("-inf"), dtype)
    if is_causal:
        shape = op.Concat(op.Shape(query, start=-2, end=-1), op.Shape(key, start=-2, end=-1), axis=0)
        past = op.Trilu(op.ConstantOfShape(shape, value=ir.tensor([1])), upper=0)
        scores = op.Where(op.Cast(past, to=ir.DataType.BOOL), scores, never)
    elif mask is not None:
        allowed = mask.dtype == ir.DataType.BOOL
        scores = op.Where(mask, scores, never) if allowed else op.Add(scores, mask)
    weights = op.Softmax(scores, axis=-1)
    if mask is not None:
        nothing = op.Equal(op.ReduceMax(scores, ints(-1)), never)
        weights = op.Where(nothing, constant(0, dtype), weights)
    return op.MatMul(weights, value)


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    import torch

    return {torch.ops.aten.scaled_dot_product_attention.default: attention}
