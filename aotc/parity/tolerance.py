"""The default tolerance: derived from how far eager itself is from float64, never guessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from aotc.config import Bound
from aotc.errors import UsageError
from aotc.signature import Signature

Array = np.ndarray[Any, Any]

EAGER_ERRORS = 8
"""An engine may be this many times as far from eager as eager in float32 is from float64."""
HARD_FACTOR = 4
SAMPLE = 12
"""So many different values of an output show eager's error: the chance that all are almost exact is nil."""
SAMPLE_FACTOR = 4
"""By this much at most other cases widen the bound of one that shows eager's error itself."""
_OF_SIZE = 0.1
_LOOKED_AT = 1000
FLOOR_ULPS = 4
FLOAT64_ULPS = 64
FALLBACK_RTOL, FALLBACK_ATOL = 1e-5, 1e-6
RELATIVE_RMS = {"fp16": 1e-2}
"""By precision: how far an output may be from eager, as the RMS of the errors over that of eager's values."""
LARGEST_ERROR = 1e-2
"""Eager further from float64 than this share of the output's size computes noise: no bound is derived."""
_LOW_QUANTILE, _FILL_FACTOR = 0.1, 1e5
_EPS64 = float(np.finfo(np.float64).eps)


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Bound of one output in one case: |engine - eager| <= atol + rtol * |eager|.

    Of origin ``rms``: RMS(engine - eager) <= rtol * RMS(eager), over the output's regular entries; each of
    the others within rtol of itself.
    """

    atol: float
    rtol: float
    origin: Literal["exact", "derived", "ulps", "fallback", "configured", "rms"]


def configured(
    bounds: Mapping[str, Bound], signature: Signature, precision: str = "fp32"
) -> dict[str, Tolerance]:
    """Return the tolerances that are not derived, by output name: the user's, and those of the precision.

    Raises:
        UsageError: A bound for an output that does not exist, or for one that must be exact.
    """
    outputs = {spec.name: spec for spec in signature.outputs}
    for name in bounds:
        if name not in outputs:
            raise UsageError(
                f"tolerance names the output '{name}', which does not exist",
                slug="config",
                hint=f"outputs: {', '.join(outputs)}",
            )
        if not outputs[name].dtype.startswith("float"):
            raise UsageError(
                f"the output '{name}' is {outputs[name].dtype} and compared exactly", slug="config"
            )
    found = {name: Tolerance(bound.atol, bound.rtol, "configured") for name, bound in bounds.items()}
    if (limit := RELATIVE_RMS.get(precision)) is not None:
        floating = (spec.name for spec in signature.outputs if spec.dtype.startswith("float"))
        found = {**{name: Tolerance(0.0, limit, "rms") for name in floating}, **found}
    return found


@dataclasses.dataclass(frozen=True)
class Measured:
    """How far eager was from float64 in one case, over the regular entries, and the largest of them.

    ``limit`` is the share of the output's size above which that error says that nothing can be compared, and
    ``values`` how many different values there are of about the largest's size, as far as it matters: copies
    of one have one error, and a small value (the tail of a sigmoid) shows a small one.
    """

    error: float
    largest: float
    limit: float = LARGEST_ERROR
    values: int = 1


def regular(eager: Array) -> Array:
    """Return which entries are of the output's usual size.

    A fill value (-1e9, float32's minimum) is millions of times larger than what it masks: its ulps, and its
    error, must not become the bound of the others.
    """
    size = np.abs(eager)
    finite: Array = np.isfinite(size) & (size < np.finfo(eager.dtype).max)
    usual = size[finite & (size > 0)]
    if not usual.size:
        return np.asarray(finite)
    small = np.quantile(usual.astype(np.float64), _LOW_QUANTILE, method="lower")
    return np.asarray(finite & (size <= _FILL_FACTOR * small))


def measure(eager: Array, wide: Array | None) -> Measured | None:
    """Return eager's own error in an output that is narrower than float64; None where there is no figure."""
    if eager.dtype.kind not in "fc" or eager.dtype in (np.float64, np.complex128):
        return None
    if wide is None or wide.shape != eager.shape:
        return None
    where = regular(eager)
    both = where & np.isfinite(wide)
    error = np.abs(eager[both].astype(wide.dtype) - wide[both]).max(initial=0.0)
    limit = max(LARGEST_ERROR, 64 * float(np.finfo(eager.dtype).eps))
    largest = _largest(eager[where])
    of_size = eager[where & (np.abs(eager) >= _OF_SIZE * largest)]
    return Measured(float(error), largest, limit, np.unique(of_size[:_LOOKED_AT]).size)


def derive(eager: Array, wide: Array | None) -> Tolerance:
    """Return the tolerance of an output in one case.

    Args:
        eager: The output of eager in its own dtype.
        wide: The same output with everything in float64; None where float64 does not run.
    """
    if eager.dtype.kind not in "fc":
        return Tolerance(0.0, 0.0, "exact")
    where = regular(eager)
    if eager.dtype in (np.float64, np.complex128):
        where |= _met_once(eager, ~where & np.isfinite(eager))
    largest = _largest(eager[where])
    ulp = float(np.spacing(np.asarray(largest, eager.real.dtype)))
    if eager.dtype in (np.float64, np.complex128):
        fill = bool((~where & np.isfinite(eager)).any())
        return Tolerance(FLOAT64_ULPS * ulp, FLOAT64_ULPS * _EPS64 * fill, "ulps")
    measured = measure(eager, wide)
    if measured is None:
        return Tolerance(FALLBACK_ATOL * max(1.0, largest), FALLBACK_RTOL, "fallback")
    atol = max(EAGER_ERRORS * measured.error, FLOOR_ULPS * ulp)
    return Tolerance(atol, _relative(eager, wide, ~where & np.isfinite(eager)), "derived")


def _met_once(eager: Array, large: Array) -> Array:
    """Return which of the ``large`` entries are no fill value: theirs occur once, to float32's precision.

    float64 has no wider reference that would tell a large error from a small one, so a result such as exp,
    which spreads over all sizes, gets the plain bound: ulps of its largest value.
    """
    mantissas, exponents = np.frexp(np.abs(eager[large]))
    rounded = np.ldexp(np.round(np.ldexp(mantissas, 24)), exponents - 24)
    _, inverse, counts = np.unique(rounded, return_inverse=True, return_counts=True)
    once = np.zeros(eager.shape, bool)
    once[large] = counts[inverse] == 1
    return once


def _relative(eager: Array, wide: Array | None, where: Array) -> float:
    """Return the bound of entries of another size than the rest, relative to each; 0 if there are none."""
    if wide is None or not where.any():
        return 0.0
    mine, theirs = eager[where].astype(wide.dtype), wide[where]
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(mine - theirs) / np.abs(mine)
    error = error[np.isfinite(error) & (error < LARGEST_ERROR)]
    eps = float(np.finfo(eager.dtype).eps)
    return max(EAGER_ERRORS * float(error.max(initial=0.0)), FLOOR_ULPS * eps)


def pooled(usual: Sequence[Measured], hard: Sequence[Measured]) -> tuple[list[float], list[float]]:
    """Return an ``atol`` for each case of one output, usual and hard ones, from what all of them show.

    The error of a single case is a sample: where an output has one entry, eager is by luck almost exact in
    one case of ten, and 8 times almost nothing is a bound that a correct engine misses. So the errors of the
    usual cases, relative to the output's size, are pooled and the largest counts. The size is the largest
    value, or the median of it over the usual cases where that is more: a value near zero is a difference of
    larger ones, and has their error. Hard values have errors of their own and tell nothing about others; one
    case of them is all there is, so it gets some more of what the others show.
    """
    typical = typical_size(usual)
    scales = [max(case.largest, typical) for case in usual]
    relative = max((c.error / s for c, s in zip(usual, scales, strict=True) if s > 0), default=0.0)

    def bound(case: Measured, factor: int) -> float:
        others = factor * relative * max(case.largest, typical)
        if case.values >= SAMPLE:
            others = min(others, SAMPLE_FACTOR * case.error)
        return EAGER_ERRORS * max(case.error, others)

    return [bound(case, 1) for case in usual], [bound(case, HARD_FACTOR) for case in hard]


def typical_size(usual: Sequence[Measured]) -> float:
    """Return the median over cases of an output's largest regular entry."""
    sizes = [case.largest for case in usual if case.largest > 0]
    return float(np.median(sizes)) if sizes else 0.0


def _largest(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def unstable(eager: Array, wide: Array | None) -> Array:
    """Return where eager's NaN and Inf are an accident of its precision: float64 has another class there."""
    if wide is None or wide.shape != eager.shape or eager.dtype.kind not in "fc":
        return np.zeros(eager.shape, bool)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(eager.dtype)
    # float32's own minimum is float64's minimum in the float64 run: a fill value, and stable.
    extreme = np.abs(eager) == np.finfo(eager.dtype).max
    return np.asarray((_class(eager) != _class(narrow)) & ~extreme)


def _class(values: Array) -> Array:
    """0 for finite, 1 for NaN, 2 and 3 for the infinities."""
    positive = values.real > 0
    return np.where(np.isfinite(values), 0, np.where(np.isnan(values), 1, np.where(positive, 2, 3)))
