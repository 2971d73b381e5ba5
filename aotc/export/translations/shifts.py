"""Shifts of integers.

The exporter lacks ``x << tensor`` and ``x >> tensor``, and gives int8 for uint8. In eager the right shift of
a negative number is arithmetic, and a shift by a negative amount, or by the width of the type or more, gives
0, or -1 for the right shift of a negative number; BitShift leaves such amounts undefined.
See https://github.com/microsoft/onnxruntime/issues/3821.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.values import constant

_INT64, _UINT64 = ir.DataType.INT64, ir.DataType.UINT64
_MOST = 63


def left_shift(self: ir.Value, other: ir.Value) -> Any:
    """``self << other``: in 64 bits, then cut to the type's own width."""
    number, amount, dtype = _wide(self, other)
    shifted = op.Cast(
        op.BitShift(op.Cast(number, to=_UINT64), _unsigned(amount), direction="LEFT"), to=_INT64
    )
    return op.Cast(op.Where(_in_range(amount), shifted, constant(0, _INT64)), to=dtype)


def right_shift(self: ir.Value, other: ir.Value) -> Any:
    """``self >> other``: of a negative number the complement is shifted, which is not negative."""
    number, amount, dtype = _wide(self, other)
    amount = op.Where(_in_range(amount), amount, constant(_MOST, _INT64))
    negative = op.Less(number, constant(0, _INT64))
    positive = op.Where(negative, op.BitwiseNot(number), number)
    shifted = op.BitShift(op.Cast(positive, to=_UINT64), _unsigned(amount), direction="RIGHT")
    shifted = op.Cast(shifted, to=_INT64)
    return op.Cast(op.Where(negative, op.BitwiseNot(shifted), shifted), to=dtype)


def _wide(self: ir.Value | int, other: ir.Value | int) -> tuple[Any, Any, ir.DataType]:
    """Return both in int64, and the dtype of the result."""
    dtypes = [v.dtype for v in (self, other) if isinstance(v, ir.Value) and v.dtype is not None]
    number, amount = (
        op.Cast(v, to=_INT64) if isinstance(v, ir.Value) else constant(v, _INT64) for v in (self, other)
    )
    return number, amount, max(dtypes, key=lambda dtype: dtype.bitwidth)


def _in_range(amount: ir.Value) -> Any:
    return op.And(
        op.GreaterOrEqual(amount, constant(0, _INT64)), op.LessOrEqual(amount, constant(_MOST, _INT64))
    )


def _unsigned(amount: ir.Value) -> Any:
    return op.Cast(op.Clip(amount, constant(0, _INT64), constant(_MOST, _INT64)), to=_UINT64)


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    import torch

    aten = torch.ops.aten
    return {
        aten.__lshift__.Scalar: left_shift,
        aten.__lshift__.Tensor: left_shift,
        aten.__rshift__.Scalar: right_shift,
        aten.__rshift__.Tensor: right_shift,
        aten.bitwise_left_shift.Tensor: left_shift,
        aten.bitwise_left_shift.Tensor_Scalar: left_shift,
        aten.bitwise_left_shift.Scalar_Tensor: left_shift,
        aten.bitwise_right_shift.Tensor: right_shift,
        aten.bitwise_right_shift.Tensor_Scalar: right_shift,
        aten.bitwise_right_shift.Scalar_Tensor: right_shift,
    }
