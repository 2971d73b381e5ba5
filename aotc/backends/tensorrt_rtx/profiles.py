"""The signature's profiles as shapes of every input: TensorRT itself takes any profile and checks little."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from aotc import dims
from aotc.errors import UsageError
from aotc.signature import Profile, Signature, TensorSpec

Shape = tuple[int, ...]
Shapes = dict[str, tuple[Shape, Shape, Shape]]
"""(min, opt, max) by input name."""


def profile_shapes(signature: Signature) -> list[Shapes]:
    """Return one set of shapes for each profile of ``signature``; empty where every dim is static.

    Where a size is an expression of dims (``2*seq``), its ends are the smallest and largest at the corners.

    Raises:
        UsageError: A dim has no profile; the hint says what to write.
    """
    if not signature.dims:
        return []
    for profile in signature.profiles or ({},):
        if missing := [name for name in signature.dims if name not in profile]:
            raise UsageError(
                f"the dim '{missing[0]}' has no profile, and TensorRT compiles for known ranges of sizes",
                slug="profile",
                hint=f"profiles = [{{{_example(signature, profile)}}}], (min, opt, max) of each dim",
            )
    return [
        {spec.name: _shapes(spec, profile) for spec in signature.inputs if _is_dynamic(spec)}
        for profile in signature.profiles
    ]


def _example(signature: Signature, profile: Mapping[str, Profile]) -> str:
    given = {name: (p.min, p.opt, p.max) for name, p in profile.items()}
    return ", ".join(f'"{name}": {given.get(name, "(1, 8, 64)")}' for name in signature.dims)


def _is_dynamic(spec: TensorSpec) -> bool:
    return any(dims.symbols(size) for size in spec.shape)


def _shapes(spec: TensorSpec, profile: Mapping[str, Profile]) -> tuple[Shape, Shape, Shape]:
    usual = {name: p.opt for name, p in profile.items()}
    ranges = [_range(size, profile) for size in spec.shape]
    opt = tuple(dims.evaluate(size, usual) for size in spec.shape)
    low, high = tuple(low for low, _ in ranges), tuple(high for _, high in ranges)
    assert all(a <= b <= c for a, b, c in zip(low, opt, high, strict=True)), (spec.name, low, opt, high)
    return low, opt, high


def _range(size: int | str, profile: Mapping[str, Profile]) -> tuple[int, int]:
    names = sorted(dims.symbols(size))
    rows = itertools.product(*((profile[n].min, profile[n].opt, profile[n].max) for n in names))
    found = [dims.evaluate(size, dict(zip(names, row, strict=True))) for row in rows]
    return min(found), max(found)
