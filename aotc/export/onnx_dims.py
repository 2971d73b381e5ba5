"""Dims that the file itself requires to be equal count as one, though it gives them no common name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aotc import dims
from aotc.errors import UsageError
from aotc.signature import Profile, Signature

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
_MOST_PAIRED = 8
"""Of more dims of one size than this, not all pairs are tried: each costs a run."""


def find_equal_dims(
    signature: Signature, example: Mapping[str, Array], accepts: Callable[[Feeds], bool]
) -> dict[str, str]:
    """Return, by dim, the earlier dim that it must be equal to.

    Dims of the same size are one if the file accepts twice that size for all of them and for no fewer: two
    dims are tried before larger groups, those on the same axis before others.

    Args:
        signature: The inputs.
        example: Inputs that the file accepts.
        accepts: Runs the untouched file.
    """
    sizes = signature.check(dict(example))
    axes: dict[str, int] = {}
    for spec in signature.inputs:
        for axis, size in enumerate(spec.shape):
            if size in sizes:
                axes.setdefault(str(size), axis)

    def doubled(changed: Collection[str]) -> bool:
        wanted = {name: 2 * size if name in changed else size for name, size in sizes.items()}
        return accepts({s.name: _resized(example[s.name], s.shape, wanted) for s in signature.inputs})

    bound = [name for name in axes if not doubled([name])]
    equal: dict[str, str] = {}
    for group in _groups(bound, sizes, axes):
        left = [name for name in group if name not in equal and name not in equal.values()]
        if len(left) == len(group) and doubled(group) and not any(doubled(_without(group, n)) for n in group):
            equal |= dict.fromkeys(group[1:], group[0])
    return equal


def _groups(
    names: Sequence[str], sizes: Mapping[str, int], axes: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield the groups of dims to try, each at most once."""
    by_size = [[n for n in names if sizes[n] == size] for size in dict.fromkeys(sizes[n] for n in names)]
    for same in by_size:
        if len(same) <= _MOST_PAIRED:
            yield from itertools.combinations(same, 2)
    for same in by_size:
        on_axes = [tuple(n for n in same if axes[n] == axis) for axis in dict.fromkeys(axes[n] for n in same)]
        yield from (group for group in dict.fromkeys([*on_axes, tuple(same)]) if len(group) > 2)


def _without(group: Sequence[str], name: str) -> list[str]:
    return [each for each in group if each != name]


def _resized(array: Array, shape: tuple[int | str, ...], sizes: Mapping[str, int]) -> Array:
    for axis, size in enumerate(shape):
        array = np.take(array, np.arange(dims.evaluate(size, sizes)) % max(array.shape[axis], 1), axis=axis)
    return np.array(array, order="C")


def merge_dims(signature: Signature, equal: Mapping[str, str]) -> Signature:
    """Return ``signature`` with each dim in ``equal`` replaced by the earlier one.

    Raises:
        UsageError: Two such dims were given different profiles.
    """
    specs = tuple(
        spec.model_copy(update={"shape": tuple(equal.get(str(size), size) for size in spec.shape)})
        for spec in signature.inputs
    )
    profiles = tuple(_merged(profile, equal) for profile in signature.profiles)
    limited: set[str] = set().union(*profiles)
    bounds = {name: limit for name, limit in signature.bounds.items() if name not in {*equal, *limited}}
    return signature.model_copy(update={"inputs": specs, "profiles": profiles, "bounds": bounds})


def _merged(profile: Mapping[str, Profile], equal: Mapping[str, str]) -> dict[str, Profile]:
    merged: dict[str, Profile] = {}
    for name, sizes in profile.items():
        kept = equal.get(name, name)
        if merged.setdefault(kept, sizes) != sizes:
            raise UsageError(
                f"the dims '{kept}' and '{name}' are always equal in this file and have different profiles",
                slug="profile",
                hint=f"give one, for '{kept}'",
            )
    return merged


def note(later: str, earlier: str) -> str:
    """Return what a build says about a dim that became another."""
    return f"the dims '{earlier}' and '{later}' count as one: the file refuses other sizes"
