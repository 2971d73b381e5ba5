"""Arithmetic on integers and booleans.

- ``a + b`` of booleans is ``a or b`` in eager; ONNX's Add takes no booleans.
- Division of integers that rounds toward zero goes through float32 in the exporter: wrong from 2**24.
- ONNX Runtime has no Where for booleans.
- ``-x`` of uint8 wraps in eager; ONNX's Neg takes no unsigned numbers.
- Matrix products of 8 and 16 bits wrap in eager; MatMul takes 32 bits or more.

See https://github.com/microsoft/onnxruntime/issues/13681 and https://github.com/microsoft/onnxruntime/issues/3821.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.values import NARROW, constant, is_float


def add(self: ir.Value, other: ir.Value, alpha: float = 1) -> Any:
    """``self + alpha * other``."""
    if self.dtype == ir.DataType.BOOL and isinstance(other, ir.Value) and other.dtype == ir.DataType.BOOL:
        return op.Or(self, other) if alpha else op.Identity(self)
    if alpha != 1:
        other = op.Mul(other, constant(alpha, self.dtype))
    return op.Add(self, other)


def where(condition: ir.Value, self: ir.Value, other: ir.Value) -> Any:
    """``self`` where ``condition`` holds, else ``other``."""
    if self.dtype != ir.DataType.BOOL:
        return op.Where(condition, self, other)
    return op.Or(op.And(condition, self), op.And(op.Not(condition), other))


def masked_fill(self: ir.Value, mask: ir.Value, value: Any) -> Any:
    """``value`` where ``mask`` holds, else ``self``."""
    filling = op.CastLike(value, self) if isinstance(value, ir.Value) else constant(value, self.dtype)
    if self.dtype == ir.DataType.BOOL:
        return op.Or(op.And(mask, filling), op.And(op.Not(mask), self))
    return op.Where(mask, filling, self)


def neg(self: ir.Value) -> Any:
    """``-self``."""
    unsigned = self.dtype is not None and self.dtype.name.startswith("UINT")
    return op.Sub(constant(0, self.dtype), self) if unsigned else op.Neg(self)


def divide(self: ir.Value, other: ir.Value, rounding_mode: str | None = None) -> Any:
    """Divide, and round towards zero (``trunc``) or down (``floor``)."""
    other = other if isinstance(other, ir.Value) else constant(other, self.dtype)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    quotient = op.Div(self, other)
    if rounding_mode == "trunc" and is_float(self.dtype):
        return op.Where(op.Less(quotient, constant(0, self.dtype)), op.Ceil(quotient), op.Floor(quotient))
    return quotient


def floor_divide(self: ir.Value, other: ir.Value) -> Any:
    """Divide and round down, as eager does it: from the remainder, so that ``1.0 // 0.1`` is 9."""
    other = other if isinstance(other, ir.Value) else constant(other, self.dtype)
    return floor_quotient(self, other, self.dtype)


def floor_quotient(number: Any, divisor: Any, dtype: ir.DataType | None) -> Any:
    """Divide values of ``dtype`` and round down."""
    zero, one = constant(0, dtype), constant(1, dtype)
    if not is_float(dtype):
        quotient = op.Div(number, divisor)
        rest = op.Sub(number, op.Mul(quotient, divisor))
        return op.Where(_signs_differ(rest, divisor, zero), op.Sub(quotient, one), quotient)
    rest = op.Mod(number, divisor, fmod=1)
    quotient = op.Div(op.Sub(number, rest), divisor)
    quotient = op.Where(_signs_differ(rest, divisor, zero), op.Sub(quotient, one), quotient)
    down = op.Floor(quotient)
    down = op.Where(op.Greater(op.Sub(quotient, down), constant(0.5, dtype)), op.Add(down, one), down)
    return op.Where(op.Equal(divisor, zero), op.Div(number, divisor), down)


def _signs_differ(rest: ir.Value, other: ir.Value, zero: ir.Value) -> Any:
    differ = op.Xor(op.Less(rest, zero), op.Less(other, zero))
    return op.And(differ, op.Not(op.Equal(rest, zero)))


def matmul(self: ir.Value, other: ir.Value) -> Any:
    """Matrix product."""
    if self.dtype not in NARROW:
        return op.MatMul(self, other)
    wide = (op.Cast(value, to=ir.DataType.INT32) for value in (self, other))
    return op.Cast(op.MatMul(*wide), to=self.dtype)


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    import torch

    aten = torch.ops.aten
    return {
        aten.add.Tensor: add,
        aten.masked_fill.Scalar: masked_fill,
        aten.masked_fill.Tensor: masked_fill,
        aten.neg.default: neg,
        aten.where.self: where,
        aten.div.Tensor_mode: divide,
        aten.div.Scalar_mode: divide,
        aten.floor_divide.default: floor_divide,
        aten.mm.default: matmul,
        aten.bmm.default: matmul,
        aten.matmul.default: matmul,
    }
