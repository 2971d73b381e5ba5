"""Figures of one output against eager: the bound decides, the rest explains."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from aotc.parity.tolerance import Tolerance

Array = np.ndarray[Any, Any]
_MAX_CLASSES = 1 << 20


class OutputFigures(BaseModel):
    """What was measured for one output of one case.

    ``max_abs`` and ``max_rel`` are over entries where both are finite; ``ratio`` is the worst error over its
    bound (above 1 is a failure); ``top1`` is the share of equal argmax over the last axis and ``kl`` the
    largest divergence in nats, both only for outputs that can be read as logits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    passed: bool
    reason: str | None = None
    max_abs: float = 0.0
    max_rel: float = 0.0
    cosine: float | None = None
    ratio: float = 0.0
    atol: float
    rtol: float
    tolerance: str
    top1: float | None = None
    kl: float | None = None


def compare(name: str, got: Array, eager: Array, tolerance: Tolerance, unstable: Array) -> OutputFigures:
    """Compare one output with eager's.

    Shape and dtype must be equal; integers and bools exactly; NaN and Inf must stand in the same places,
    except where ``unstable``.
    """
    bound = {"atol": tolerance.atol, "rtol": tolerance.rtol, "tolerance": tolerance.origin}
    for what, mine, theirs in (("dtype", got.dtype, eager.dtype), ("shape", got.shape, eager.shape)):
        if mine != theirs:
            return OutputFigures(name=name, passed=False, reason=f"{what} {mine} for {theirs}", **bound)
    if eager.dtype.kind not in "fc":
        return _compare_exact(name, got, eager, bound)
    keep = ~unstable
    same_class = _same_class(got, eager)
    if not bool(np.all(same_class | unstable)):
        count = int(np.count_nonzero(~same_class & keep))
        reason = f"NaN or Inf differ in {count} of {eager.size} values"
        return OutputFigures(name=name, passed=False, reason=reason, **bound)
    figures = _errors(got, eager, keep & np.isfinite(eager) & np.isfinite(got), tolerance)
    passed = figures["ratio"] <= 1.0
    reason = None if passed else f"max abs {figures['max_abs']:.3g} is {figures['ratio']:.3g} times the bound"
    return OutputFigures(name=name, passed=passed, reason=reason, **bound, **figures, **_as_logits(got, eager))


def _compare_exact(name: str, got: Array, eager: Array, bound: dict[str, Any]) -> OutputFigures:
    different = int(np.count_nonzero(got != eager))
    if not different:
        return OutputFigures(name=name, passed=True, **bound)
    reason = f"{different} of {eager.size} values differ"
    return OutputFigures(name=name, passed=False, reason=reason, **bound)


def _same_class(got: Array, eager: Array) -> Array:
    with np.errstate(invalid="ignore"):
        infinite = np.isinf(got) & np.isinf(eager) & (got == eager)
    return np.asarray(
        (np.isfinite(got) & np.isfinite(eager)) | (np.isnan(got) & np.isnan(eager)) | infinite
    )


def _errors(got: Array, eager: Array, where: Array, tolerance: Tolerance) -> dict[str, Any]:
    mine, theirs = _wide(got[where]), _wide(eager[where])
    difference, size = np.abs(mine - theirs), np.abs(theirs)
    bound = tolerance.atol + tolerance.rtol * size
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference == 0, 0.0, difference / bound)
        relative = np.where(difference == 0, 0.0, difference / np.maximum(size, np.finfo(np.float64).tiny))
        norms = float(np.linalg.norm(mine)) * float(np.linalg.norm(theirs))
    # Python's json writes Infinity, which is not JSON: an error over a bound of zero is capped instead.
    huge = float(np.finfo(np.float64).max)
    return {
        "max_abs": min(float(difference.max(initial=0.0)), huge),
        "max_rel": min(float(relative.max(initial=0.0)), huge),
        "ratio": min(float(ratio.max(initial=0.0)), huge),
        "cosine": float(np.vdot(mine, theirs).real) / norms if 0 < norms < np.inf else None,
    }


def _wide(values: Array) -> Array:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _as_logits(got: Array, eager: Array) -> dict[str, float]:
    """Read an output of at least two axes as logits over its last axis."""
    classes = eager.shape[-1] if eager.ndim >= 2 else 0
    if not 2 <= classes <= _MAX_CLASSES or eager.dtype.kind != "f" or not eager.size:
        return {}
    if not (np.isfinite(got).all() and np.isfinite(eager).all()):
        return {}
    top1 = float(np.mean(got.argmax(-1) == eager.argmax(-1)))
    mine, theirs = _log_softmax(got), _log_softmax(eager)
    kl = float(np.max(np.sum(np.exp(theirs) * (theirs - mine), axis=-1)))
    return {"top1": top1, "kl": max(kl, 0.0)}


def _log_softmax(values: Array) -> Array:
    wide = values.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
