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
from aotc.parity.draw import HARD, Role, Values
from aotc.parity.sizes import Sizes, guard_breakers, verified_sizes
from aotc.parity.tolerance import SAMPLE
from aotc.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]


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
    for role, patterns in HARD.items():
        for pattern in patterns:
            yield from draw.hard_cases(usual, role, pattern)
    yield from _out_of_range(signature, observed[0], example)


def _cases_wanted(signature: Signature, example: Sizes) -> int:
    """Return how many usual cases show enough of eager's error to derive a bound from."""
    smallest = SAMPLE
    for spec in signature.outputs:
        with contextlib.suppress(InputError):  # a size that depends on the data
            entries = math.prod(dims.evaluate(size, example) for size in spec.shape)
            smallest = min(smallest, max(entries, 1))
    return -(-SAMPLE // smallest)


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
    """Draws whole cases."""

    def __init__(self, signature: Signature, observed: Sequence[Feeds], seed: int) -> None:
        self.signature = signature
        self.seed = seed
        self.values = Values(signature, observed, seed)

    def case(self, label: str, sizes: Sizes, kind: Any, hard: Mapping[str, str] | None = None) -> Case:
        rng = np.random.default_rng([self.seed, zlib.crc32(label.encode())])
        feeds = {
            spec.name: self.values.array(rng, spec, sizes, (hard or {}).get(spec.name))
            for spec in self.signature.inputs
        }
        return Case(label, feeds, dict(sizes), kind)

    def hard_cases(self, sizes: Sizes, role: Role, pattern: str) -> Iterator[Case]:
        """All inputs of a role get the pattern at once; masks one by one."""
        names = [
            s.name
            for s in self.signature.inputs
            if self.values.roles[s.name] == role
            and (s.shape or role in ("mask", "number"))
            and not (s.range is not None and s.range.unique)
        ]
        for group in [[name] for name in names] if role == "mask" else [names] if names else []:
            label = f"{', '.join(group)}: {pattern}"
            yield self.case(label, sizes, "hard", dict.fromkeys(group, pattern))
