"""Optimising passes: target-independent, on the canonical dialect."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.optimise.eliminate_dead_code import EliminateDeadCode
from aotc_passes.optimise.fold_batch_norm import FoldBatchNorm
from aotc_passes.optimise.fold_constants import FoldConstants
from aotc_passes.optimise.share_duplicates import ShareDuplicates

PASSES: tuple[type[Pass], ...] = (
    FoldConstants,
    FoldBatchNorm,
    EliminateDeadCode,
    ShareDuplicates,
)
"""All optimising passes, in the order in which they help each other."""

__all__ = ["PASSES", "EliminateDeadCode", "FoldBatchNorm", "FoldConstants", "ShareDuplicates"]
