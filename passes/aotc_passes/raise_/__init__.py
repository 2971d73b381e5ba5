"""Raising passes: any spelling -> the standard operator."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.raise_.raise_activations import RaiseActivations
from aotc_passes.raise_.raise_attention import RaiseAttention
from aotc_passes.raise_.raise_normalisations import RaiseNormalisations
from aotc_passes.raise_.raise_rotary_embeddings import RaiseRotaryEmbeddings

PASSES: tuple[type[Pass], ...] = (
    RaiseNormalisations,
    RaiseActivations,
    RaiseRotaryEmbeddings,
    RaiseAttention,
)
"""All raising passes, in the order in which they run."""

__all__ = ["PASSES", "RaiseActivations", "RaiseAttention", "RaiseNormalisations", "RaiseRotaryEmbeddings"]
