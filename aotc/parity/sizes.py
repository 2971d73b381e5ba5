"""At which sizes a build is verified: the corners of every profile, and sizes between."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from aotc import dims
from aotc.errors import InputError
from aotc.signature import Bounds, Profile, Signature

Sizes = dict[str, int]
_NEAR, _BETWEEN = 13, 7


@dataclasses.dataclass(frozen=True)
class _Choice:
    """Sizes of one dim: the ends of what is allowed, the usual size, an odd one, and 0 or 2 if wanted."""

    low: int
    high: int
    opt: int
    odd: int
    extra: tuple[int, ...] = ()


def verified_sizes(signature: Signature, example: Mapping[str, int]) -> list[Sizes]:
    """Return the size of every dim for each generated input set, without repeats, in a fixed order.

    For each profile: all pairs of (min, max) over dims, the opt sizes, and odd sizes between. A dim without a
    profile is taken at 1, 2, its example size and a larger odd size, and at 0, alone and with the others.

    Args:
        signature: Dims, profiles and bounds.
        example: Size of each dim in the example inputs.
    """
    found: list[Sizes] = []
    for profile in signature.profiles or ({},):
        choices = {name: _choice(name, profile, signature, example[name]) for name in signature.dims}
        found += _sizes_of_profile(choices)
    return [sizes for sizes in _unique(found) if signature.allows(sizes)]


def guard_breakers(signature: Signature, example: Mapping[str, int]) -> Iterator[tuple[str, Sizes]]:
    """Yield sizes at which a condition of the trace does not hold, with the condition.

    The graph took one branch of ``if n % 6 == 5``; whether it is right where the other is due cannot be read
    off it, so it is tried there: at up to three sizes a condition, spread over what the signature allows.
    """
    for profile in signature.profiles or ({},):
        choices = {name: _choice(name, profile, signature, example[name]) for name in signature.dims}
        usual = {name: choice.opt for name, choice in choices.items()}
        for guard in signature.guards:
            with contextlib.suppress(InputError):  # arithmetic on floats: the sizes above must do
                names = sorted(dims.symbols(guard))
                if not choices.keys() >= set(names):  # of a dim that the trace found equal to another
                    continue
                rows = itertools.product(*(_spread(choices[n].low, choices[n].high) for n in names))
                sizes = [usual | dict(zip(names, row, strict=True)) for row in rows]
                breaking = [s for s in sizes if not dims.holds(guard, s) and signature.allows(s)]
                for size in _unique(breaking[i] for i in (0, len(breaking) // 2, -1) if breaking):
                    yield guard, size


def _spread(low: int, high: int) -> list[int]:
    """Return sizes of a dim from ``low`` to ``high``: every one near the ends, some between."""
    between = range(low, high + 1, max(1, (high - low) // _BETWEEN))
    ends = [*range(low, low + _NEAR), *range(high - _NEAR, high + 1)]
    return sorted({*between, *(size for size in ends if low <= size <= high)})


def _choice(name: str, profile: Mapping[str, Profile], signature: Signature, example: int) -> _Choice:
    if name in profile:
        allowed = profile[name]
        return _Choice(allowed.min, allowed.max, allowed.opt, _odd_between(allowed.min, allowed.max))
    bounds = signature.bounds.get(name, Bounds())
    low = max(1, bounds.min)
    limit = math.inf if bounds.max is None else bounds.max
    high = max(_larger_odd(example, bounds.max), bounds.min)
    extra = tuple(size for size in (2, 0) if size == max(bounds.min, min(size, limit)))
    return _Choice(low, high, example, high, extra)


def _odd_between(low: int, high: int) -> int:
    """Return an odd size near the geometric mean of ``low`` and ``high``, or ``low`` if there is none."""
    middle = math.isqrt(max(low, 1) * max(high, 1)) | 1
    return min(max(middle, low), high)


def _larger_odd(example: int, limit: int | None) -> int:
    size = 2 * example + 3 if example % 2 else 2 * example + 1
    if limit is None or size <= limit:
        return size
    return limit if limit % 2 else max(limit - 1, 1)


def _sizes_of_profile(choices: Mapping[str, _Choice]) -> Iterator[Sizes]:
    yield {name: choice.opt for name, choice in choices.items()}
    yield {name: choice.odd for name, choice in choices.items()}
    for row in _pairs([(c.low, c.high) for c in choices.values()]):
        yield dict(zip(choices, row, strict=True))
    for name, choice in choices.items():
        for size in choice.extra:
            yield {n: size if n == name else c.opt for n, c in choices.items()}
    yield {n: 0 if 0 in c.extra else c.opt for n, c in choices.items()}


def _pairs(values: list[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield rows in which every pair of values of every two columns occurs: all of them up to three columns.

    Beyond that a greedy covering array: each row is built column by column so that it covers the most pairs
    that are still missing.
    """
    if len(values) <= 3:
        yield from itertools.product(*values)
        return
    missing = {
        ((i, a), (j, b))
        for i, j in itertools.combinations(range(len(values)), 2)
        for a in (0, 1)
        for b in (0, 1)
    }
    while missing:
        row = dict(next(iter(sorted(missing))))
        for column in range(len(values)):
            if column not in row:
                row[column] = max((0, 1), key=lambda bit: _covered(row, column, bit, missing))
        missing -= set(itertools.combinations(sorted(row.items()), 2))
        yield tuple(values[column][row[column]] for column in range(len(values)))


def _covered(row: Mapping[int, int], column: int, bit: int, missing: Iterable[object]) -> int:
    pairs = {tuple(sorted(((column, bit), item))) for item in row.items()}
    return len(pairs & set(missing))


def _unique(sizes: Iterable[Sizes]) -> list[Sizes]:
    return list({tuple(sorted(size.items())): size for size in sizes}.values())
