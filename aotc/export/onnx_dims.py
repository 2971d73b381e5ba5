"""Dims that the file itself requires to be equal count as one, though it gives them no common name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aotc import dims
from aotc.errors import UsageError
from aotc.signature import Profile, Signature

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]


def find_equal_dims(
    signature: Signature, example: Mapping[str, Array], accepts: Callable[[Feeds], bool]
) -> dict[str, str]:
    """Return, by dim, the earlier dim that it must be equal to.

    Two dims of the same size are one if the file refuses twice that size for either alone and accepts it for
    both.

    Args:
        signature: The inputs.
        example: Inputs that the file accepts.
        accepts: Runs the untouched file.
    """
    sizes = signature.check(dict(example))
    names = list(dict.fromkeys(size for spec in signature.inputs for size in spec.shape if size in sizes))
    equal: dict[str, str] = {}

    def doubled(*changed: Any) -> bool:
        wanted = {name: 2 * size if name in changed else size for name, size in sizes.items()}
        return accepts({s.name: _resized(example[s.name], s.shape, wanted) for s in signature.inputs})

    for earlier, later in itertools.combinations(names, 2):
        if earlier in equal or later in equal or sizes[str(earlier)] != sizes[str(later)]:
            continue
        if not doubled(later) and not doubled(earlier) and doubled(earlier, later):
            equal[str(later)] = str(earlier)
    return equal


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
