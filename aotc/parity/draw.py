"""Values of one input: drawn from its role and from what the source showed, or hard ones."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from aotc import dims
from aotc.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Role = Literal["index", "mask", "integer", "number", "float"]

HARD: dict[Role, tuple[str, ...]] = {
    "float": ("zeros", "large", "negative"),
    "index": ("lowest", "highest"),
    "mask": ("ones", "zeros", "one row zero", "zeros first", "holes"),
    "integer": ("lowest", "highest"),
    "number": ("one less", "one more"),
}
"""Patterns of hard values by role."""
_LARGE = 1e3
_MOST_DEALT = 1 << 20


class Values:
    """Draws values for each input of a signature.

    Indices are dealt like cards: none comes a second time before all others have come, so that as many rows
    of a table are looked up as there are entries in all cases.

    Args:
        signature: What the inputs may be.
        observed: Inputs that the source gave.
        seed: Seeds the order in which indices are dealt.
    """

    def __init__(self, signature: Signature, observed: Sequence[Mapping[str, Array]], seed: int) -> None:
        self._seed = seed
        self._observed = {
            s.name: np.concatenate([f[s.name].reshape(-1) for f in observed]) for s in signature.inputs
        }
        self._decks: dict[str, _Deck] = {}
        self.roles = {s.name: _role(s, self._observed[s.name]) for s in signature.inputs}

    def array(
        self, rng: np.random.Generator, spec: TensorSpec, sizes: Mapping[str, int], pattern: str | None
    ) -> Array:
        """Return drawn values, or those of a ``pattern`` of the input's role."""
        shape = tuple(dims.evaluate(size, sizes) for size in spec.shape)
        match self.roles[spec.name]:
            case "index":
                drawn = self._indices(rng, spec, sizes, shape, pattern)
            case "mask":
                drawn = _mask(rng, shape, pattern)
            case "integer" | "number":
                drawn = _integers(rng, self._observed[spec.name], shape, pattern)
            case "float":
                drawn = _floats(rng, self._observed[spec.name], shape, pattern)
        return np.array(drawn, dtype=spec.dtype, order="C")

    def _indices(
        self,
        rng: np.random.Generator,
        spec: TensorSpec,
        sizes: Mapping[str, int],
        shape: tuple[int, ...],
        pattern: str | None,
    ) -> Array:
        assert spec.range is not None
        low, high = dims.evaluate(spec.range.low, sizes), dims.evaluate(spec.range.high, sizes)
        if pattern is not None:
            return np.full(shape, low if pattern == "lowest" else high)
        if spec.range.unique and shape and 0 < shape[-1] <= high - max(low, 0) + 1:
            rows = int(np.prod(shape[:-1]))
            drawn = [rng.permutation(np.arange(max(low, 0), high + 1))[: shape[-1]] for _ in range(rows)]
            return np.stack(drawn).reshape(shape) if drawn else np.zeros(shape)
        if high - low >= _MOST_DEALT:
            return rng.integers(low, high, shape, endpoint=True)
        seed = [self._seed, zlib.crc32(spec.name.encode()), low % (1 << 32), high % (1 << 32)]
        deck = self._decks.setdefault(f"{spec.name} {low} {high}", _Deck(low, high, seed))
        return deck.deal(math.prod(shape)).reshape(shape)


class _Deck:
    """The numbers from ``low`` to ``high`` in a random order, again and again in others."""

    def __init__(self, low: int, high: int, seed: Sequence[int]) -> None:
        self._all = np.arange(low, high + 1)
        self._rng = np.random.default_rng(seed)
        self._left = self._all[:0]

    def deal(self, count: int) -> Array:
        """Return the next ``count`` of them."""
        while self._left.size < count:
            self._left = np.concatenate([self._left, self._rng.permutation(self._all)])
        dealt, self._left = self._left[:count], self._left[count:]
        return dealt


def _role(spec: TensorSpec, values: Array) -> Role:
    if spec.range is not None:
        return "index"
    # One value alone says nothing: zeros may be token types, ones may be lengths.
    if values.dtype == np.bool_ or (set(np.unique(values).tolist()) == {0, 1}):
        return "mask"
    if values.dtype.kind in "iu" and not spec.shape:
        return "number"  # a rate, a mode: another value may take another branch
    if values.dtype.kind in "iu":
        return "mask" if values.size > 1 and set(np.unique(values).tolist()) == {1} else "integer"
    return "float"


def _mask(rng: np.random.Generator, shape: tuple[int, ...], pattern: str | None) -> Array:
    """Draw rows that start with ones and end in padding, as batches of sequences have them.

    The padding may also come first, or be anywhere: who counts the ones alone is wrong there.
    """
    if pattern == "ones":
        return np.ones(shape)
    if pattern == "zeros":
        return np.zeros(shape)
    if not shape:
        return rng.integers(0, 1, shape, endpoint=True)
    lengths = rng.integers(1, max(shape[-1], 1), (*shape[:-1], 1), endpoint=True)
    mask = np.arange(shape[-1]) < lengths
    if pattern == "zeros first":
        return mask[..., ::-1]
    if pattern == "holes":
        return rng.permuted(mask, axis=-1)
    if pattern == "one row zero" and mask.size:
        mask.reshape(-1, shape[-1])[0] = False
    return mask


def _integers(rng: np.random.Generator, values: Array, shape: tuple[int, ...], pattern: str | None) -> Array:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 1)
    if pattern is not None:
        limits = np.iinfo(values.dtype)
        wanted = {"lowest": low, "highest": high, "one less": low - 1, "one more": high + 1}[pattern]
        return np.full(shape, min(max(wanted, limits.min), limits.max), values.dtype)
    return rng.integers(low, high, shape, values.dtype, endpoint=True)


def _floats(rng: np.random.Generator, values: Array, shape: tuple[int, ...], pattern: str | None) -> Array:
    """Draw from the values that the source showed, so that a domain (positive, 0 to 1) is kept."""
    finite = values[np.isfinite(values)]
    drawn = rng.choice(finite, shape) if finite.size else rng.standard_normal(shape)
    if pattern == "zeros":
        return np.zeros(shape)
    if pattern == "negative":
        return -np.abs(drawn)
    if pattern == "large":
        scale = max(float(np.abs(drawn).max(initial=0.0)), 1.0)
        limit = float(np.finfo(values.dtype).max) / 4
        return np.asarray(rng.uniform(-1, 1, shape) * min(scale * _LARGE, limit))
    return np.asarray(drawn)
