"""Lowering passes of the ONNX Runtime targets: the canonical dialect -> what its kernels take."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.lower_ort.exact_integer_sum import ExactIntegerSum
from aotc_passes.lower_ort.expand_attention_mask import ExpandAttentionMask
from aotc_passes.lower_ort.mish_by_exp import MishByExp
from aotc_passes.lower_ort.quick_gelu import QuickGelu
from aotc_passes.lower_ort.stable_group_norm import StableGroupNorm

PASSES: tuple[type[Pass], ...] = (ExpandAttentionMask, ExactIntegerSum, StableGroupNorm, QuickGelu, MishByExp)
"""All lowering passes of ONNX Runtime, in the order in which they run."""

__all__ = ["PASSES", "ExactIntegerSum", "ExpandAttentionMask", "MishByExp", "QuickGelu", "StableGroupNorm"]
