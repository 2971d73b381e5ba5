"""``aotc::require(value, condition)``: value, or an error if condition is false.

ONNX has no assertion. Here the value becomes row 0 of a table that has no other: where the condition does
not hold, row 1 is looked up, which every runtime refuses. Unlike a Reshape, no shape inference takes
it for a copy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.values import ints

if TYPE_CHECKING:
    import torch


@functools.cache
def operator() -> Any:
    """Define the operator for torch and return it."""
    import torch

    schema = "(Tensor value, Tensor condition) -> Tensor"

    @torch.library.custom_op("aotc::require", mutates_args=(), schema=schema)
    def require(value: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        if not condition:
            raise RuntimeError("forward refuses its data")
        return value.clone()

    @require.register_fake
    def _(value: torch.Tensor, _condition: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(value)

    return torch.ops.aotc.require.default


def require(value: ir.Value, condition: ir.Value) -> Any:
    """Return ``value`` where ``condition``, a bool of rank 0, holds."""
    row = op.Where(condition, op.Constant(value_int=0), op.Constant(value_int=1))
    return op.Gather(op.Unsqueeze(value, ints(0)), row, axis=0)


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    return {operator(): require}
