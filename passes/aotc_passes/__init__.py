"""Graph passes, one a file, in folders by the stage that runs them."""

from __future__ import annotations

from aotc.rewrite import Pass
from aotc_passes import lower_ort, optimise, quantise, raise_

PASSES: tuple[type[Pass], ...] = (
    *raise_.PASSES,
    *optimise.PASSES,
    *lower_ort.PASSES,
    *quantise.PASSES,
)
"""Every pass, in the order of the stages."""
