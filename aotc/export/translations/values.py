"""What translations share: constants, and sizes of values that are being recorded."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

NARROW = (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8)
HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""Dtypes for which many kernels of ONNX Runtime are missing."""


def constant(value: Any, dtype: ir.DataType | None) -> Any:
    """Return a constant of ``dtype``, which must be known: a number, or a list for a vector."""
    assert dtype is not None
    return op.Constant(value=ir.tensor(value, dtype=dtype))


def ints(*values: int) -> Any:
    """Return an int64 vector."""
    return op.Constant(value_ints=list(values))


def rank(value: ir.Value) -> int:
    """Return the rank of a value that torch.export knows."""
    assert value.shape is not None
    return value.shape.rank()


def filled(number: float, dtype: ir.DataType | None, shape: Any) -> Any:
    """Return a tensor of ``shape`` (an int64 vector) that holds ``number`` everywhere."""
    assert dtype is not None
    return op.ConstantOfShape(shape, value=ir.tensor([number], dtype=dtype))


def is_float(dtype: ir.DataType | None) -> bool:
    """Return whether ``dtype`` is a floating-point one."""
    return dtype is not None and dtype.is_floating_point()
