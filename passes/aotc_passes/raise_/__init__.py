"""Raising passes: any spelling -> the standard operator."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.raise_.activations import Activations
from aotc_passes.raise_.normalisations import Normalisations
from aotc_passes.raise_.activations import Activations
from aotc_passes.raise_.normalisations import Normalisations
from aotc_passes.raise_.raise_attention import RaiseAttention
from aotc_passes.raise_.rotary_embeddings import RotaryEmbeddings

PASSES: tuple[type[Pass], ...] = (Normalisations, Activations, RotaryEmbeddings, RaiseAttention)
"""All raising passes, in the order in which they run."""

__all__ = ["PASSES", "Activations", "Normalisations", "RaiseAttention", "RotaryEmbeddings"]
