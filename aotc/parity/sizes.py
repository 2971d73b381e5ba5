"""At which sizes a build is verified: the corners of every profile, and sizes between."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping

from aotc import dims
from aotc.errors import InputError
from aotc.signature import Bounds, Profile, Signature

Sizes = dict[str, int]
_NEAR, _BETWEEN = 13, 7
_SEARCHED, _POWERS = 4096, 13
_TRIED, _TRIED_OF_FIXED = 3, 24
_EQUAL = re.compile(r"Eq\((\w+), (\w+)\)")
_MULTIPLE = re.compile(r"Eq\(Mod\((\w+), (\d+)\), 0\)")


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
    Of a dim that the model takes in multiples of a number only, an odd multiple stands for the odd size.

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
    off it, so it is tried there: at some sizes a condition, spread over those that were found.
    """
    for profile in signature.profiles or ({},):
        for guard in signature.guards:
            breaking = _breaking(guard, profile, signature, example)
            count = _TRIED
            if guard.startswith("Eq("):
                # A number was fixed (``int(n * 0.3)``): each other one may mean another branch.
                breaking = list({dims.difference(guard, size): size for size in breaking}.values())
                count = _TRIED_OF_FIXED
            step = max(1, -(-len(breaking) // (count - 1)))
            yield from ((guard, size) for size in _unique([*breaking[::step], *breaking[-1:]]))


def untried_guards(signature: Signature, example: Mapping[str, int]) -> tuple[str, ...]:
    """Return the conditions of the trace that no size to try breaks, though some size may.

    A profile of few enough sizes was searched in full: what holds there needs no watching.
    """
    found: dict[str, None] = {}
    for profile in signature.profiles or ({},):
        for guard in signature.guards:
            names = _names(guard, signature)
            full = all(n in profile and profile[n].max - profile[n].min < _SEARCHED for n in names)
            if names and not (full and len(names) == 1) and not _breaking(guard, profile, signature, example):
                found[guard] = None
    return tuple(found)


def unread_guards(signature: Signature) -> tuple[str, ...]:
    """Return the conditions of the trace that are no arithmetic this package knows.

    That a dim equals one which the signature no longer has is none: they were found equal and are one now,
    which the runtime checks.
    """
    unread = (g for g in signature.guards if not _names(g, signature) and "(" in g)
    return tuple(g for g in unread if not _is_merged(g, signature))


def _is_merged(guard: str, signature: Signature) -> bool:
    sides = _EQUAL.fullmatch(guard)
    return sides is not None and (sides[1] in signature.dims) != (sides[2] in signature.dims)


def _names(guard: str, signature: Signature) -> list[str]:
    """Return the dims of ``guard``; none if it cannot be evaluated, or names one found equal to another."""
    with contextlib.suppress(InputError):
        names = sorted(dims.symbols(guard))
        if set(names) <= set(signature.dims):
            dims.holds(guard, dict.fromkeys(names, 64))
            return names
    return []


def _breaking(
    guard: str, profile: Mapping[str, Profile], signature: Signature, example: Mapping[str, int]
) -> list[Sizes]:
    """Return sizes at which ``guard`` does not hold, of those worth a look; other dims are as usual."""
    names = _names(guard, signature)
    if not names:
        return []
    choices = {name: _choice(name, profile, signature, example[name]) for name in signature.dims}
    usual = {name: choice.opt for name, choice in choices.items()}
    searched = [
        _searched(n, choices[n], n in profile, signature, guard, alone=len(names) == 1) for n in names
    ]
    rows = (dict(zip(names, row, strict=True)) for row in itertools.product(*searched))
    return [usual | row for row in rows if not _holds(guard, row)]


def _holds(guard: str, sizes: Sizes) -> bool:
    try:
        return dims.holds(guard, sizes)
    except InputError:  # such as a division by zero: there it cannot have been taken
        return True


def _searched(
    name: str, choice: _Choice, profiled: bool, signature: Signature, guard: str, *, alone: bool
) -> list[int]:
    """Return the sizes of a dim at which to evaluate ``guard``: all, if it is the only dim and they are few.

    Else those near the ends, near the numbers in the guard and near powers of two. A dim without a profile
    has no end: as far as its bounds allow.
    """
    high = choice.high
    if not profiled:
        limit = signature.bounds.get(name, Bounds()).max
        high = _SEARCHED if limit is None else min(limit, _SEARCHED)
    if alone and high - choice.low < _SEARCHED:
        return list(range(choice.low, high + 1))
    marks = [*dims.constants(guard), *(2**power for power in range(_POWERS)), choice.low, high]
    near = {mark + step for mark in marks for step in (-1, 0, 1)}
    found = sorted(size for size in near if choice.low <= size <= high)
    return sorted({*found, *_spread(choice.low, high)}) if alone else found


def _spread(low: int, high: int) -> list[int]:
    """Return sizes of a dim from ``low`` to ``high``: every one near the ends, some between."""
    between = range(low, high + 1, max(1, (high - low) // _BETWEEN))
    ends = [*range(low, low + _NEAR), *range(high - _NEAR, high + 1)]
    return sorted({*between, *(size for size in ends if low <= size <= high)})


def _choice(name: str, profile: Mapping[str, Profile], signature: Signature, example: int) -> _Choice:
    step = _step(name, signature)
    if name in profile:
        allowed = profile[name]
        return _Choice(allowed.min, allowed.max, allowed.opt, _odd_between(allowed.min, allowed.max, step))
    bounds = signature.bounds.get(name, Bounds())
    low = max(1, bounds.min)
    limit = math.inf if bounds.max is None else bounds.max
    high = max(_larger_odd(example, bounds.max, step), bounds.min)
    extra = tuple(size for size in (2, 0) if size == max(bounds.min, min(size, limit)))
    return _Choice(low, high, example, high, extra)


def _step(name: str, signature: Signature) -> int:
    """Return the number whose multiples the model takes as size of a dim (``H % patch == 0``), usually 1."""
    found = (_MULTIPLE.fullmatch(guard) for guard in signature.guards)
    return math.lcm(*(int(m[2]) for m in found if m is not None and m[1] == name))


def _odd_between(low: int, high: int, step: int) -> int:
    """Return an odd multiple of ``step`` near the geometric mean of ``low`` and ``high``, or an end."""
    middle = (math.isqrt(max(low, 1) * max(high, 1)) // step | 1) * step
    return min(max(middle, low), high)


def _larger_odd(example: int, limit: int | None, step: int) -> int:
    """Return an odd multiple of ``step`` beyond twice ``example``, or the largest within ``limit``."""
    count = example // step
    count = 2 * count + 3 if count % 2 else 2 * count + 1
    if limit is not None and count * step > limit:
        most = limit // step
        count = most if most % 2 else max(most - 1, 1)
    return count * step


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
