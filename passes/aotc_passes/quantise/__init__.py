"""Passes that compute in fewer bits: the same function, within a budget."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.quantise.cast_to_fp16 import CastToFp16

PASSES: tuple[type[Pass], ...] = (CastToFp16,)
"""All of them."""

__all__ = ["PASSES", "CastToFp16"]
