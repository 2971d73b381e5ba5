"""The default tolerance: derived from how far eager itself is from float64, never guessed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from aotc.config import Bound
from aotc.errors import UsageError
from aotc.signature import Signature

Array = np.ndarray[Any, Any]

EAGER_ERRORS = 8
"""An engine may be this many times as far from eager as eager in float32 is from float64."""
FLOOR_ULPS = 4
FLOAT64_ULPS = 64
FALLBACK_RTOL, FALLBACK_ATOL = 1e-5, 1e-6


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Bound of one output in one case: |engine - eager| <= atol + rtol * |eager|."""

    atol: float
    rtol: float
    origin: Literal["exact", "derived", "ulps", "fallback", "configured"]


def configured(bounds: Mapping[str, Bound], signature: Signature) -> dict[str, Tolerance]:
    """Return the tolerances that the user set, by output name.

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
    return {name: Tolerance(bound.atol, bound.rtol, "configured") for name, bound in bounds.items()}


def derive(eager: Array, wide: Array | None) -> Tolerance:
    """Return the tolerance of an output.

    Args:
        eager: The output of eager in its own dtype.
        wide: The same output with everything in float64; None where float64 does not run.
    """
    if eager.dtype.kind not in "fc":
        return Tolerance(0.0, 0.0, "exact")
    finite = np.abs(eager[np.isfinite(eager)])
    largest = float(finite.max()) if finite.size else 0.0
    ulp = float(np.spacing(np.asarray(largest, eager.real.dtype)))
    if eager.dtype in (np.float64, np.complex128):
        return Tolerance(FLOAT64_ULPS * ulp, 0.0, "ulps")
    if wide is None or wide.shape != eager.shape:
        return Tolerance(FALLBACK_ATOL * max(1.0, largest), FALLBACK_RTOL, "fallback")
    both = np.isfinite(eager) & np.isfinite(wide)
    error = float(np.abs(eager[both].astype(wide.dtype) - wide[both]).max(initial=0.0))
    return Tolerance(max(EAGER_ERRORS * error, FLOOR_ULPS * ulp), 0.0, "derived")


def unstable(eager: Array, wide: Array | None) -> Array:
    """Return where eager's NaN and Inf are an accident of its precision: float64 has another class there."""
    if wide is None or wide.shape != eager.shape or eager.dtype.kind not in "fc":
        return np.zeros(eager.shape, bool)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(eager.dtype)
    return np.asarray(_class(eager) != _class(narrow))


def _class(values: Array) -> Array:
    """0 for finite, 1 for NaN, 2 and 3 for the infinities."""
    positive = values.real > 0
    return np.where(np.isfinite(values), 0, np.where(np.isnan(values), 1, np.where(positive, 2, 3)))
