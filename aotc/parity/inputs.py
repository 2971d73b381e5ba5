"""The inputs of the gate: what the source gives, generated values at every size, hard values, bad indices."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from aotc import dims
from aotc.errors import InputError
from aotc.parity.sizes import Sizes, guard_breakers, verified_sizes
from aotc.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Role = Literal["index", "mask", "integer", "float"]

_HARD: dict[Role, tuple[str, ...]] = {
    "float": ("zeros", "large", "negative"),
    "index": ("lowest", "highest"),
    "mask": ("ones", "zeros", "one row zero"),
    "integer": ("lowest", "highest"),
}
_LARGE = 1e3
_ENTRIES_WANTED = 12
"""Of each output, over all usual cases: the chance that eager is almost exact in all of them is then nil."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One input set of the gate.

    What it means if eager refuses the inputs depends on ``kind``:

    - ``given`` by the source, or ``profile`` (sizes that a profile allows): the source contradicts itself.
    - ``size`` (a dim without a profile), ``index`` (just out of range), ``bad`` (the source's bad_inputs):
      the engine must refuse them too.
    - ``zero`` (an empty axis): as ``size``, but an engine that cannot do it may refuse that size for good.
    - ``hard`` (extreme values): not compared, and the verdict says so.

    ``fallback`` holds the example's own values at the same sizes, for models in which one input limits
    another: it is used if eager refuses the drawn values.
    """

    label: str
    feeds: Feeds
    sizes: Sizes
    kind: Literal["given", "bad", "profile", "size", "zero", "hard", "index"]
    fallback: Feeds | None = None


def generate(signature: Signature, observed: Sequence[Feeds], *, seed: int = 0) -> Iterator[Case]:
    """Yield generated cases: each size with drawn values, hard values for each role, indices out of range.

    Args:
        signature: What the inputs may be.
        observed: Inputs that the source gave; the first is the example. Values are drawn from them.
        seed: Seeds the draws; the same seed gives the same cases.
    """
    draw = _Draw(signature, observed, seed)
    example = signature.check(observed[0])
    sizes = verified_sizes(signature, example)
    for size in sizes:
        yield dataclasses.replace(
            draw.case(_label(size), size, _kind(signature, size, example)),
            fallback={s.name: _tiled(s, observed[0][s.name], size) for s in signature.inputs},
        )
    for guard, size in guard_breakers(signature, example):
        if size not in sizes:
            yield dataclasses.replace(
                draw.case(f"{_label(size)}, against {guard}", size, "zero" if 0 in size.values() else "size"),
                fallback={s.name: _tiled(s, observed[0][s.name], size) for s in signature.inputs},
            )
    for index in range(len(sizes) + len(observed), _cases_wanted(signature, example)):
        yield dataclasses.replace(
            draw.case(f"drawn values {index}", example, "profile"), fallback=dict(observed[0])
        )
    usual = _hard_sizes(signature, sizes, example)
    for role, patterns in _HARD.items():
        for pattern in patterns:
            yield from draw.hard_cases(usual, role, pattern)
    yield from _out_of_range(signature, observed[0], example)


def _cases_wanted(signature: Signature, example: Sizes) -> int:
    """Return how many usual cases show enough of eager's error to derive a bound from."""
    smallest = _ENTRIES_WANTED
    for spec in signature.outputs:
        with contextlib.suppress(InputError):  # a size that depends on the data
            entries = math.prod(dims.evaluate(size, example) for size in spec.shape)
            smallest = min(smallest, max(entries, 1))
    return -(-_ENTRIES_WANTED // smallest)


def _kind(signature: Signature, sizes: Sizes, example: Sizes) -> Literal["profile", "size", "zero"]:
    profiled: set[str] = set().union(*signature.profiles) if signature.profiles else set()
    free = {name: size for name, size in sizes.items() if name not in profiled and size != example[name]}
    if not free:
        return "profile"
    return "zero" if 0 in free.values() else "size"


def _tiled(spec: TensorSpec, example: Array, sizes: Sizes) -> Array:
    """Repeat or cut the example along each axis to the wanted size."""
    for axis, size in enumerate(spec.shape):
        have = example.shape[axis]
        if have:
            example = np.take(example, np.arange(dims.evaluate(size, sizes)) % have, axis=axis)
    return np.array(example, order="C")


def _label(sizes: Mapping[str, int]) -> str:
    return "sizes " + " ".join(f"{name}={size}" for name, size in sizes.items()) if sizes else "drawn values"


def _hard_sizes(signature: Signature, sizes: Sequence[Sizes], example: Sizes) -> Sizes:
    """Return odd sizes with at least two entries where a profile allows it: the second generated set."""
    return sizes[1] if len(sizes) > 1 and signature.profiles else example


def _out_of_range(signature: Signature, example: Feeds, sizes: Sizes) -> Iterator[Case]:
    """Yield the example with one index just below and one just above its range: eager raises, so must we."""
    for spec in signature.inputs:
        if spec.range is None or example[spec.name].size == 0:
            continue
        for value in (
            dims.evaluate(spec.range.low, sizes) - 1,
            dims.evaluate(spec.range.high, sizes) + 1,
        ):
            limits = np.iinfo(spec.dtype)
            if not limits.min <= value <= limits.max:
                continue
            bad = example[spec.name].copy()
            bad.reshape(-1)[-1] = value
            yield Case(f"{spec.name} holds {value}", {**example, spec.name: bad}, sizes, "index")


class _Draw:
    """Draws values for each input from its role and from what the source showed."""

    def __init__(self, signature: Signature, observed: Sequence[Feeds], seed: int) -> None:
        self.signature = signature
        self.seed = seed
        self.values = {
            s.name: np.concatenate([f[s.name].reshape(-1) for f in observed]) for s in signature.inputs
        }
        self.roles = {s.name: _role(s, self.values[s.name]) for s in signature.inputs}

    def case(self, label: str, sizes: Sizes, kind: Any, hard: Mapping[str, str] | None = None) -> Case:
        rng = np.random.default_rng([self.seed, zlib.crc32(label.encode())])
        feeds = {
            spec.name: self._array(rng, spec, sizes, (hard or {}).get(spec.name))
            for spec in self.signature.inputs
        }
        return Case(label, feeds, dict(sizes), kind)

    def hard_cases(self, sizes: Sizes, role: Role, pattern: str) -> Iterator[Case]:
        """All inputs of a role get the pattern at once; masks one by one."""
        names = [
            s.name
            for s in self.signature.inputs
            if self.roles[s.name] == role
            and (s.shape or role == "mask")
            and not (s.range is not None and s.range.unique)
        ]
        for group in [[name] for name in names] if role == "mask" else [names] if names else []:
            label = f"{', '.join(group)}: {pattern}"
            yield self.case(label, sizes, "hard", dict.fromkeys(group, pattern))

    def _array(self, rng: np.random.Generator, spec: TensorSpec, sizes: Sizes, pattern: str | None) -> Array:
        shape = tuple(dims.evaluate(size, sizes) for size in spec.shape)
        match self.roles[spec.name]:
            case "index":
                drawn = _indices(rng, spec, sizes, shape, pattern)
            case "mask":
                drawn = _mask(rng, shape, pattern)
            case "integer":
                drawn = _integers(rng, self.values[spec.name], shape, pattern)
            case "float":
                drawn = _floats(rng, self.values[spec.name], shape, pattern)
        return np.array(drawn, dtype=spec.dtype, order="C")


def _role(spec: TensorSpec, values: Array) -> Role:
    if spec.range is not None:
        return "index"
    # One value alone says nothing: zeros may be token types, ones may be lengths.
    if values.dtype == np.bool_ or (set(np.unique(values).tolist()) == {0, 1}):
        return "mask"
    if values.dtype.kind in "iu":
        return "mask" if values.size > 1 and set(np.unique(values).tolist()) == {1} else "integer"
    return "float"


def _indices(
    rng: np.random.Generator, spec: TensorSpec, sizes: Sizes, shape: tuple[int, ...], pattern: str | None
) -> Array:
    assert spec.range is not None
    low, high = dims.evaluate(spec.range.low, sizes), dims.evaluate(spec.range.high, sizes)
    if pattern is not None:
        return np.full(shape, low if pattern == "lowest" else high)
    if spec.range.unique and shape and 0 < shape[-1] <= high - max(low, 0) + 1:
        rows = int(np.prod(shape[:-1]))
        drawn = [rng.permutation(np.arange(max(low, 0), high + 1))[: shape[-1]] for _ in range(rows)]
        return np.stack(drawn).reshape(shape) if drawn else np.zeros(shape)
    return rng.integers(low, high, shape, endpoint=True)


def _mask(rng: np.random.Generator, shape: tuple[int, ...], pattern: str | None) -> Array:
    """Draw rows that start with ones and end in padding, as batches of sequences have them."""
    if pattern == "ones":
        return np.ones(shape)
    if pattern == "zeros":
        return np.zeros(shape)
    if not shape:
        return rng.integers(0, 1, shape, endpoint=True)
    lengths = rng.integers(1, max(shape[-1], 1), (*shape[:-1], 1), endpoint=True)
    mask = np.arange(shape[-1]) < lengths
    if pattern == "one row zero" and mask.size:
        mask.reshape(-1, shape[-1])[0] = False
    return mask


def _integers(rng: np.random.Generator, values: Array, shape: tuple[int, ...], pattern: str | None) -> Array:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 1)
    if pattern is not None:
        return np.full(shape, low if pattern == "lowest" else high, values.dtype)
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
