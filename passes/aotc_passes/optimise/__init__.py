"""Optimising passes: target-independent, on the canonical dialect."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.optimise.eliminate_dead_code import EliminateDeadCode
from aotc_passes.optimise.fold_batch_norm import FoldBatchNorm
from aotc_passes.optimise.fold_constants import FoldConstants
from aotc_passes.optimise.share_duplicates import ShareDuplicates
from aotc_passes.optimise.simplify_reshape import SimplifyReshape

PASSES: tuple[type[Pass], ...] = (
    EliminateDeadCode,
    FoldConstants,
    FoldBatchNorm,
    SimplifyReshape,
    ShareDuplicates,
)
"""All optimising passes, each after those that prepare for it; a pipeline may run one of them twice."""

__all__ = [
    "PASSES",
    "EliminateDeadCode",
    "FoldBatchNorm",
    "FoldConstants",
    "ShareDuplicates",
    "SimplifyReshape",
]
