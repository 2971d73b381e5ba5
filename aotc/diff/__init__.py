"""Two bundles side by side: what of the second is not as in the first."""

from __future__ import annotations

from aotc.diff.compare import diff
from aotc.diff.document import (
    SECTIONS,
    AnyDiff,
    BundleDiff,
    Difference,
    FileDifference,
    OperatorDifference,
    PartsDiff,
    WeightDifference,
)

__all__ = [
    "SECTIONS",
    "AnyDiff",
    "BundleDiff",
    "Difference",
    "FileDifference",
    "OperatorDifference",
    "PartsDiff",
    "WeightDifference",
    "diff",
]
