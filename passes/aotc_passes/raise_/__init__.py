"""Raising passes: whatever spelling -> the standard operators."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.raise_.raise_attention import RaiseAttention

PASSES: tuple[type[Pass], ...] = (RaiseAttention,)
"""All raising passes, in the order in which they run."""

__all__ = ["PASSES", "RaiseAttention"]
