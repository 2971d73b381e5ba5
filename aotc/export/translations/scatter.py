"""Scattering with a reduction.

The exporter turns ``mean`` into a plain write, starts ``amax`` without self from the lowest finite number,
and takes no ``src`` that is larger than ``index``. In eager every entry of ``index`` counts, repeated ones
too; with ``include_self=False`` a place that is hit forgets its own value, and one that is not hit keeps it;
the mean divides by the number of values, rounding down for integers.
See https://github.com/pytorch/pytorch/issues/152419 and https://github.com/microsoft/onnxruntime/issues/12119.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript.onnx_opset import opset23 as op

from aotc.export.translations.arithmetic import floor_quotient
from aotc.export.translations.values import HALF, constant, filled, ints, is_float, rank

_KINDS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def scatter_reduce(
    self: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduce: str, include_self: bool = True
) -> Any:
    """Reduce ``src`` into ``self`` at ``index`` along ``dim``."""
    if rank(self) == 0:
        base, place, number = (op.Reshape(value, ints(1)) for value in (self, index, src))
        return op.Squeeze(_reduce(base, place, number, self.dtype, 0, reduce, include_self))
    return _reduce(self, index, _cut(src, index), self.dtype, dim, reduce, include_self)


def scatter_add(self: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> Any:
    """Add ``src`` to ``self`` at ``index`` along ``dim``."""
    return scatter_reduce(self, dim, index, src, "sum")


def scatter_src(self: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> Any:
    """Write ``src`` into ``self`` at ``index`` along ``dim``."""
    if rank(self) == 0:
        parts = (op.Reshape(value, ints(1)) for value in (self, index, src))
        return op.Squeeze(op.ScatterElements(*parts, axis=0))
    return op.ScatterElements(self, index, _cut(src, index), axis=dim)


def index_reduce(
    self: ir.Value, dim: int, index: ir.Value, source: ir.Value, reduce: str, include_self: bool = True
) -> Any:
    """Reduce the slices of ``source`` into the slices of ``self`` that ``index`` names."""
    axis = dim % rank(self)
    shape = [-1 if i == axis else 1 for i in range(rank(self))]
    places = op.Expand(op.Reshape(index, ints(*shape)), op.Shape(source))
    places = op.Cast(places, to=ir.DataType.INT64)
    return _reduce(self, places, source, self.dtype, axis, reduce, include_self)


def _reduce(
    self: Any, index: Any, src: Any, dtype: ir.DataType | None, axis: int, reduce: str, include_self: bool
) -> Any:
    """Reduce; half floats in float32, because ONNX Runtime has no kernel for them."""
    if dtype in HALF:
        wide = ir.DataType.FLOAT
        parts = op.Cast(self, to=wide), index, op.Cast(src, to=wide)
        return op.Cast(_reduce(*parts, wide, axis, reduce, include_self), to=dtype)
    kind = _KINDS[reduce]
    base = self
    if not include_self:
        base = op.ScatterElements(
            self, index, filled(_neutral(kind, dtype), dtype, op.Shape(index)), axis=axis
        )
    reduced = op.ScatterElements(base, index, src, axis=axis, reduction=kind)
    if reduce != "mean":
        return reduced
    counts = filled(1 if include_self else 0, dtype, op.Shape(self))
    counts = op.ScatterElements(counts, index, filled(1, dtype, op.Shape(index)), axis=axis, reduction="add")
    counts = op.Max(counts, constant(1, dtype))
    return op.Div(reduced, counts) if is_float(dtype) else floor_quotient(reduced, counts, dtype)


def _neutral(kind: str, dtype: ir.DataType | None) -> float:
    """Return the number that changes no result."""
    assert dtype is not None
    if kind in ("add", "mul"):
        return 0 if kind == "add" else 1
    sign = -1 if kind == "max" else 1
    if is_float(dtype):
        return sign * float("inf")
    return int(dtype.min if kind == "max" else dtype.max)


def _cut(src: ir.Value, index: ir.Value) -> Any:
    """Return the part of ``src`` that ``index`` covers: eager takes a larger ``src``, ONNX does not."""
    assert src.shape is not None
    if src.shape == index.shape and src.shape.is_static():
        return src
    return op.Slice(src, ints(*[0] * rank(src)), op.Shape(index))


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the translations of this family."""
    import torch

    aten = torch.ops.aten
    return {
        aten.scatter.src: scatter_src,
        aten.scatter_add.default: scatter_add,
        aten.scatter_reduce.two: scatter_reduce,
        aten.index_reduce.default: index_reduce,
    }
