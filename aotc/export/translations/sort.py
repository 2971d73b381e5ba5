"""Sorting.

The exporter lacks ``sort(stable=True)``, and its TopK takes no booleans and no narrow integers. In eager a
stable sort keeps equal entries in order, ascending or descending; an unstable one may do the same. TopK gives
the lower index first among equal entries. See https://github.com/microsoft/onnxruntime/issues/13681.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.values import HALF, NARROW, rank


def sort(self: ir.Value, dim: int = -1, descending: bool = False) -> Any:
    """Return (values, indices) along ``dim``."""
    if rank(self) == 0:
        return op.Identity(self), op.Constant(value_int=0)
    axis = dim % rank(self)
    return _top(self, op.Shape(self, start=axis, end=axis + 1), axis, descending)


def sort_stable(self: ir.Value, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:  # noqa: ARG001 - always stable
    """Return (values, indices) along ``dim``."""
    return sort(self, dim, descending)


def topk(self: ir.Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002 - aten's own name
    """Return the ``k`` largest or smallest entries along ``dim`` and their indices."""
    if rank(self) == 0:
        return op.Identity(self), op.Constant(value_int=0)
    count = (
        op.Reshape(k, op.Constant(value_ints=[1])) if isinstance(k, ir.Value) else op.Constant(value_ints=[k])
    )
    return _top(self, count, dim % rank(self), largest, ordered=sorted)


def _top(self: ir.Value, count: Any, axis: int, largest: bool, *, ordered: bool = True) -> Any:
    wider = ir.DataType.INT32 if self.dtype in NARROW else ir.DataType.FLOAT if self.dtype in HALF else None
    keys = self if wider is None else op.Cast(self, to=wider)
    values, indices = op.TopK(keys, count, axis=axis, largest=int(largest), sorted=int(ordered))
    return (values if wider is None else op.Cast(values, to=self.dtype)), indices


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    import torch

    aten = torch.ops.aten
    return {aten.sort.default: sort, aten.sort.stable: sort_stable, aten.topk.default: topk}
