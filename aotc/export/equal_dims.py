"""Dims that the user did not name and that were equal in every input set count as one dim.

Eager does not always check that two lengths agree: attention on the CPU reads beyond the shorter of keys and
values. Nothing in the traced program ties such dims, so the input sets of the source say what is meant, and
the runtime refuses unequal sizes. Who means two dims names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aotc.signature import Bounds

_SIZES_NEEDED = 2
"""Equal once is chance; equal at two different sizes is taken as meant."""


def find_equal_dims(
    shapes: Mapping[str, Sequence[int | str]],
    observed: Sequence[Mapping[str, Any]],
    anonymous: frozenset[str],
) -> dict[str, str]:
    """Return, by dim, the earlier dim that it is equal to in every input set.

    Args:
        shapes: Symbolic shapes of the inputs, in order.
        observed: Tensors by input name, for each input set of the source.
        anonymous: Dims to which the user gave no name; no other is renamed, or renamed to.
    """
    sizes: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        for axis, dim in enumerate(shape):
            if isinstance(dim, str) and dim in anonymous and dim not in sizes:
                seen = [tensors[name].shape for tensors in observed if name in tensors]
                if len(seen) == len(observed) and all(len(each) == len(shape) for each in seen):
                    sizes[dim] = tuple(each[axis] for each in seen)
    first: dict[tuple[int, ...], str] = {}
    equal: dict[str, str] = {}
    for dim, seen_sizes in sizes.items():
        if len(set(seen_sizes)) >= _SIZES_NEEDED:
            earlier = first.setdefault(seen_sizes, dim)
            if earlier != dim:
                equal[dim] = earlier
    return equal


def merge_bounds(bounds: Mapping[str, Bounds], equal: Mapping[str, str]) -> dict[str, Bounds]:
    """Return ``bounds`` with those of each renamed dim joined to the earlier one's."""
    merged: dict[str, Bounds] = {}
    for name, limit in bounds.items():
        kept = equal.get(name, name)
        merged[kept] = merged.get(kept, Bounds()).intersection(limit)
    return dict(sorted(merged.items()))


def note(later: str, earlier: str) -> str:
    """Return what a build says about a renamed dim."""
    return (
        f"the dims '{earlier}' and '{later}' are equal in every given input and count as one; "
        "name both in dynamic_shapes if they may differ"
    )
