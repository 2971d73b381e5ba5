"""Raising passes: any spelling -> the standard operator, found by what a region computes."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes.raise_.activations import Activations
from aotc_passes.raise_.normalisations import Normalisations

PASSES: tuple[type[Pass], ...] = (Normalisations, Activations)
"""All raising passes, in the order in which they run."""

__all__ = ["PASSES", "Activations", "Normalisations"]
