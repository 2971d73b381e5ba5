"""What a function of rows normalises by: read off the values that it gives for chosen rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from aotc.rewrite.cone import Array

_SMALL, _OPPOSITE, _USUAL = 0, 1, 2
_COARSE = 5e-3
_ULPS = 8
_SPREADS = (
    *((0.0, 1e-4), (0.0, 1e-4), (0.0, 1.0), (1.0, 3.0), (0.0, 1e-2)),
    *((100.0, 1.0), (-5.0, 1e3), (0.0, 0.1)),
)
"""Mean and standard deviation of the rows; the second is the negative of the first."""


@dataclasses.dataclass(frozen=True)
class Normalisation:
    """An operator over ``axis`` (counted from the end) and those behind it.

    ``scale`` and ``bias`` are the numbers of parameters, None where there is none.
    """

    op_type: str
    axis: int
    epsilon: float
    scale: int | None
    bias: int | None

    def __str__(self) -> str:
        return f"{self.op_type}(epsilon={self.epsilon:.6g})"

    def node(self, source: ir.Value, scale: ir.Value, bias: ir.Value | None) -> ir.Node:
        """Return a node of it on ``source``."""
        attributes = [ir.AttrInt64("axis", self.axis), ir.AttrFloat32("epsilon", self.epsilon)]
        inputs = [source, scale] if bias is None else [source, scale, bias]
        return ir.Node("", self.op_type, inputs, attributes, num_outputs=1)


def rows(rank: int, sizes: Sequence[int], dtype: np.dtype[np.floating]) -> Array:
    """Return rows of all kinds along the first axis; the last axes have ``sizes``, others have one entry."""
    rng = np.random.default_rng(0)
    spread = [mean + deviation * rng.standard_normal(sizes) for mean, deviation in _SPREADS]
    spread[_OPPOSITE] = -spread[_SMALL]
    peak = np.zeros(sizes)
    peak.flat[0] = 50.0
    whole = np.stack([*spread, peak, np.zeros(sizes), np.full(sizes, 3.0)])
    between = [1] * (rank - len(sizes) - 1)
    return whole.reshape(len(whole), *between, *sizes).astype(dtype)


def read_off(
    x: Array, wide: Array, parameters: Sequence[Array], axis: int
) -> tuple[list[Normalisation], str]:
    """Return the normalisations that give about ``wide`` for the rows ``x``, which ``rows`` made.

    Returns:
        The normalisations, and if there are none what the rows are divided by instead, or an empty text.
    """
    with np.errstate(all="ignore"):
        shift = (wide[_SMALL] + wide[_OPPOSITE]) / 2
        bias = _index(shift, parameters)
        others = [index for index in range(len(parameters)) if index != bias]
        if len(others) > 1 or (bias is None and not _alike(shift, np.zeros(()))):
            return [], ""
        scale = others[0] if others else None
        core = (wide - shift) / (parameters[scale] if scale is not None else 1.0)
        found, instead = [], ""
        for op_type, centred in (("LayerNormalization", True), ("RMSNormalization", False)):
            epsilon, divisor = _epsilon(x, core, axis, centred)
            instead = instead or divisor
            if epsilon is not None and (centred or bias is None):
                found.append(Normalisation(op_type, axis, epsilon, scale, bias))
    return found, instead


def difference(got: Array, own: Array, wide: Array, x: Array, axis: int) -> str | None:
    """Return how ``got`` differs from ``wide`` by more than rounding, or by more than ``own`` does.

    The mean of a row is subtracted with an error of its size, so what is left has that error.
    """
    axes = tuple(range(axis, 0))
    stable = np.isfinite(own) == np.isfinite(wide)
    if (stable & (np.isfinite(got) != np.isfinite(own))).any():
        return "it is finite elsewhere than the region is"
    finite = np.isfinite(wide) & np.isfinite(got) & np.isfinite(own)
    clean = [np.where(finite, array, 0).astype(np.float64) for array in (got, own, wide, x)]
    error, own_error = np.abs(clean[0] - clean[2]), np.abs(clean[1] - clean[2]).max(axes, keepdims=True)
    eps = float(np.finfo(got.dtype).eps)
    condition = np.abs(clean[3]).max(axes, keepdims=True) / (clean[3].std(axes, keepdims=True) + eps)
    size = np.abs(clean[2]).max(axes, keepdims=True)
    allowed = _ULPS * eps * np.clip(condition, 1, 1e4) * size + 2 * own_error
    if (error <= allowed).all():
        return None
    worst = np.unravel_index(np.argmax(error - allowed), error.shape)
    row = clean[3][worst[0]]
    text = f"it gives {got[worst]:.6g} where the region gives {wide[worst]:.6g}"
    return f"{text}, in a row of mean {row.mean():.3g} and standard deviation {row.std():.3g}"


def _epsilon(x: Array, core: Array, axis: int, centred: bool) -> tuple[float | None, str]:
    """Return the epsilon with which a row is ``c / sqrt(mean(c**2) + epsilon)``, if that is near.

    Returns:
        That, and what ``c`` is divided by where it is a multiple of ``sqrt(mean(c**2))``.
    """
    axes = tuple(range(axis, 0))
    c = x.astype(np.float64)
    c = c - c.mean(axes, keepdims=True) if centred else c
    square = (c**2).mean(axes, keepdims=True)
    factor = c[_USUAL] / core[_USUAL] / np.sqrt(square[_USUAL])
    if np.ptp(factor) > _COARSE * np.abs(factor).min():
        return None, ""
    divisor = f"it divides by {np.median(factor):.4g} times the root of the mean square"
    epsilon = float(np.median((c / core)[_SMALL] ** 2) - square[_SMALL].max())
    if not np.isfinite(epsilon) or epsilon < -1e-12:
        return None, divisor
    epsilon = float(np.float32(epsilon)) if epsilon > 1e-18 else 0.0
    return (epsilon, "") if _alike(core, c / np.sqrt(square + epsilon)) else (None, divisor)


def _index(value: Array, parameters: Sequence[Array]) -> int | None:
    return next((index for index, array in enumerate(parameters) if _alike(value, array)), None)


def _alike(value: Array, other: Array) -> bool:
    """Return whether two arrays are near; where one is not finite nothing is said."""
    known = np.isfinite(value) & np.isfinite(other)
    off = np.abs(value - other) <= _COARSE * np.maximum(1, np.abs(other))
    return bool(known.any() and off[known].all())
