"""Figures of one output against eager: the bound decides, the rest explains."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from aotc.parity.tolerance import Tolerance, regular

Array = np.ndarray[Any, Any]
_BLOCK = 1 << 20
_HUGE = float(np.finfo(np.float64).max)


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
    excused: int = 0
    """Entries that were not compared: NaN or Inf on one side, and eager's float64 run is not with eager."""
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    """Of eager's output; None in the figures of bundles that are older than these fields."""

    @property
    def severity(self) -> float:
        """Return the error over its bound; infinite where more than numbers differ."""
        return self.ratio if self.passed or self.ratio > 1 else float("inf")

    @property
    def bound(self) -> str:
        """Return the bound as text: ``1.08e-06``, ``1.08e-06 + 0.01 rel``, or ``0.01 rel RMS``."""
        if self.tolerance == "rms":
            return f"{self.rtol:.3g} rel RMS"
        return f"{self.atol:.2e}" + (f" + {self.rtol:.3g} rel" if self.rtol else "")


def compare(name: str, got: Array, eager: Array, tolerance: Tolerance, unstable: Array) -> OutputFigures:
    """Compare one output with eager's.

    Shape and dtype must be equal; integers and bools exactly; NaN and Inf must stand in the same places,
    except where ``unstable``.
    """
    bound: dict[str, Any] = {"atol": tolerance.atol, "rtol": tolerance.rtol, "tolerance": tolerance.origin}
    bound |= {"dtype": eager.dtype.name, "shape": eager.shape}
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
    where = keep & np.isfinite(eager) & np.isfinite(got)
    figures = _errors(got, eager, where, tolerance)
    what = f"max abs {figures['max_abs']:.3g}"
    if tolerance.origin == "rms":
        figures["ratio"] = min(_rms_ratio(got, eager, where, tolerance.rtol), _HUGE)
        what = f"relative RMS error {figures['ratio'] * tolerance.rtol:.3g}"
    passed = bool(figures["ratio"] <= 1.0)
    error = f"{what} is {figures['ratio']:.3g} times the bound"
    figures |= _as_logits(got, eager) | {"excused": int(np.count_nonzero(~same_class))}
    return OutputFigures(name=name, passed=passed, reason=None if passed else error, **bound, **figures)


def _compare_exact(name: str, got: Array, eager: Array, bound: dict[str, Any]) -> OutputFigures:
    different = int(np.count_nonzero(got != eager))
    if not different:
        return OutputFigures(name=name, passed=True, **bound)
    reason = f"{different} of {eager.size} values differ"
    return OutputFigures(name=name, passed=False, reason=reason, **bound)


def _same_class(got: Array, eager: Array) -> Array:
    with np.errstate(invalid="ignore"):
        infinite = np.isinf(got) & np.isinf(eager) & (got == eager)
    return np.asarray((np.isfinite(got) & np.isfinite(eager)) | (np.isnan(got) & np.isnan(eager)) | infinite)


def _errors(got: Array, eager: Array, where: Array, tolerance: Tolerance) -> dict[str, Any]:
    """Measure in float64, a block of entries at a time: outputs can be as large as the weights."""
    max_abs = max_rel = ratio = dot = mine2 = theirs2 = 0.0
    flat = got.reshape(-1), eager.reshape(-1), where.reshape(-1)
    for start in range(0, got.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        keep = flat[2][block]
        mine, theirs = _wide(flat[0][block][keep]), _wide(flat[1][block][keep])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            difference, size = np.abs(mine - theirs), np.abs(theirs)
            bound = tolerance.atol + tolerance.rtol * size
            ratios = np.where(difference == 0, 0.0, difference / bound)
            relative = np.where(difference == 0, 0.0, difference / size)
        max_abs = max(max_abs, float(difference.max(initial=0.0)))
        max_rel = max(max_rel, float(relative.max(initial=0.0)))
        ratio = max(ratio, float(ratios.max(initial=0.0)))
        dot += float(np.vdot(mine, theirs).real)
        mine2 += float(np.vdot(mine, mine).real)
        theirs2 += float(np.vdot(theirs, theirs).real)
    norms = float(np.sqrt(mine2)) * float(np.sqrt(theirs2))
    # JSON has no infinity: an error over a bound or a value of zero is capped.
    return {
        "max_abs": min(max_abs, _HUGE),
        "max_rel": min(max_rel, _HUGE),
        "ratio": min(ratio, _HUGE),
        "cosine": dot / norms if 0 < norms < np.inf else None,
    }


def relative_rms(got: Array, right: Array) -> float:
    """Return RMS(got - right) / RMS(right), computed in float64; 0 where both are zero or empty."""
    error, size = (float(np.sum(np.square(np.abs(_wide(v))))) for v in (_wide(got) - _wide(right), right))
    if not error:
        return 0.0
    return float(np.sqrt(error / size)) if size else float("inf")


def _rms_ratio(got: Array, eager: Array, where: Array, limit: float) -> float:
    """Return the relative RMS error over ``limit``; fill values, which would hide the rest, count each."""
    usual = regular(eager)
    worst = relative_rms(got[where & usual], eager[where & usual])
    mine, theirs = _wide(got[where & ~usual]), _wide(eager[where & ~usual])
    each = float((np.abs(mine - theirs) / np.abs(theirs)).max(initial=0.0))
    return max(worst, each) / limit


def _wide(values: Array) -> Array:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _as_logits(got: Array, eager: Array) -> dict[str, float]:
    """Read an output of at least two axes as logits over its last axis."""
    classes = eager.shape[-1] if eager.ndim >= 2 else 0
    if classes < 2 or eager.dtype.kind != "f" or not eager.size:
        return {}
    equal, divergence = 0, 0.0
    rows = got.reshape(-1, classes), eager.reshape(-1, classes)
    step = max(1, _BLOCK // classes)
    for start in range(0, len(rows[0]), step):
        mine, theirs = (part[start : start + step] for part in rows)
        if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
            return {}
        equal += int(np.count_nonzero(mine.argmax(-1) == theirs.argmax(-1)))
        with np.errstate(over="ignore", invalid="ignore"):
            log_mine, log_theirs = _log_softmax(mine), _log_softmax(theirs)
            divergences = np.sum(np.exp(log_theirs) * (log_theirs - log_mine), axis=-1)
        divergence = max(divergence, float(divergences.max()))
    return {"top1": equal / len(rows[0]), "kl": min(divergence, _HUGE)}


def _log_softmax(values: Array) -> Array:
    wide = values.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
