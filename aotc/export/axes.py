"""``dynamic_shapes`` as torch.export takes them, laid flat: for each input, what each dynamic axis is."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from aotc import dims, tree
from aotc.errors import InputError, UsageError
from aotc.signature import Argument, Bounds
from aotc.tree import Tree

_ANY = Bounds()


@dataclasses.dataclass(frozen=True)
class DynamicAxis:
    """A dynamic axis: ``name`` is the user's dim or an expression of dims (None if anonymous).

    ``auto`` axes may be found static by the exporter; the others must stay dynamic. ``bounds`` are those of a
    ``Dim`` with ``min`` and ``max``.
    """

    name: str | None
    auto: bool = False
    bounds: Bounds = _ANY


Axes = dict[str, dict[int, DynamicAxis]]


def flatten_dynamic_shapes(spec: Any, arguments: Sequence[Argument]) -> Axes:
    """Return the dynamic axes of each input by name.

    Args:
        spec: None, a dict by parameter name, or a tuple in parameter order; nested like the arguments.
        arguments: forward's bound arguments.

    Raises:
        UsageError: ``spec`` names an argument that does not exist or has another structure.
    """
    axes: Axes = {}
    for argument, part in _pair(spec, arguments):
        _walk(part, argument.tree, argument.name, axes)
    return {name: found for name, found in axes.items() if found}


def _pair(spec: Any, arguments: Sequence[Argument]) -> list[tuple[Argument, Any]]:
    if spec is None:
        return []
    if isinstance(spec, Mapping):
        known = {a.name: a for a in arguments}
        # A parameter may be listed and left at its default.
        unknown = [key for key in spec if key not in known and spec[key]]
        if unknown:
            raise _mismatch(f"names '{unknown[0]}', which is not an argument of forward", sorted(known))
        return [(known[key], part) for key, part in spec.items() if key in known]
    if not isinstance(spec, Sequence) or isinstance(spec, str):
        raise _mismatch(f"must be a dict, a tuple or a list, not {spec!r}", [a.name for a in arguments])
    if len(spec) == len(arguments):
        return list(zip(arguments, spec, strict=True))
    if len(arguments) == 1 and arguments[0].kind == "variadic":
        return [(arguments[0], spec)]
    raise _mismatch(f"has {len(spec)} entries for {len(arguments)} arguments", [a.name for a in arguments])


def _mismatch(what: str, known: list[str]) -> UsageError:
    return UsageError(
        f"dynamic_shapes {what}", slug="dynamic-shapes", hint=f"forward's arguments: {', '.join(known)}"
    )


def _walk(spec: Any, part: Tree, path: str, axes: Axes) -> None:
    match part:
        case tree.TensorLeaf():
            axes[part.name] = dict(_axes_of(spec, path))
        case tree.ConstantLeaf():
            return
        case tree.Sequence():
            if spec is None:
                return
            if not isinstance(spec, Sequence) or len(spec) != len(part.items):
                raise _mismatch(f"must have {len(part.items)} entries at {path}", [path])
            for i, (item_spec, item) in enumerate(zip(spec, part.items, strict=True)):
                _walk(item_spec, item, f"{path}.{i}", axes)
        case tree.Dict():
            _walk_fields(spec, part, path, axes)


def _walk_fields(spec: Any, part: tree.Dict, path: str, axes: Axes) -> None:
    leaves = list(tree.leaves(part))
    if part.kind == "record" and isinstance(spec, list | tuple) and len(spec) == len(leaves):
        # torch.export takes a registered class as the list of its tensors.
        for item_spec, leaf in zip(spec, leaves, strict=True):
            _walk(item_spec, leaf, leaf.name, axes)
        return
    fields = tree.fields_of(spec) if spec is not None else {}
    if fields is None or set(fields) - set(part.items):
        raise _mismatch(f"must have the fields of {path}", sorted(part.items))
    for key, item_spec in fields.items():
        _walk(item_spec, part.items[key], f"{path}.{key}", axes)


def _axes_of(spec: Any, path: str) -> list[tuple[int, DynamicAxis]]:
    if spec is None:
        return []
    if isinstance(spec, Mapping):
        items = list(spec.items())
    elif isinstance(spec, Sequence) and not isinstance(spec, str):
        items = list(enumerate(spec))
    else:
        raise _mismatch(f"must give a dict or a list of dims for {path}, not {spec!r}", [path])
    if wrong := [axis for axis, _ in items if not isinstance(axis, int)]:
        raise _mismatch(f"must give the axes of {path} as numbers, not {wrong[0]!r}", [path])
    return [(axis, found) for axis, dim in items if (found := _dynamic_axis(dim, path)) is not None]


def _dynamic_axis(dim: Any, path: str) -> DynamicAxis | None:
    from torch.export import Dim

    if dim is None or isinstance(dim, int):
        return None
    if isinstance(dim, str):
        return DynamicAxis(_checked_name(dim, path))
    if isinstance(dim, Dim):
        name = _checked_name(dim.__name__, path)
        return DynamicAxis(name, bounds=_bounds_of(dim) if dims.is_symbol(name) else _ANY)
    kind = getattr(getattr(dim, "type", None), "name", None)
    if kind in ("AUTO", "DYNAMIC"):
        return DynamicAxis(None, auto=kind == "AUTO", bounds=_bounds_of(dim))
    if kind == "STATIC":
        return None
    raise _mismatch(f"has the dim {dim!r} at {path}, which is not a torch.export Dim", [path])


def _bounds_of(dim: Any) -> Bounds:
    low, high = getattr(dim, "min", None), getattr(dim, "max", None)
    limited = isinstance(high, int) and high < sys.maxsize - 1
    return Bounds(min=low if isinstance(low, int) else 0, max=high if limited else None)


def _checked_name(name: str, path: str) -> str:
    """Return ``name`` if it can stand in an expression of dims."""
    try:
        if dims.symbols(name):
            return name
    except InputError:
        pass
    raise _mismatch(f"has the dim name {name!r} at {path}, which is reserved or not an identifier", [path])
