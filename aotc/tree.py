"""How forward's nested arguments and results map to flat, named tensors, without torch.

A ``Tree`` is the JSON-able skeleton of a nested value: its leaves name tensors of the signature, everything
else is structure or a frozen constant. The compiler builds trees from example values; the runtime flattens
and rebuilds values with them.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from aotc.errors import InputError, RefusedError

Constant = StrictBool | StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)] | StrictStr | None


_LARGEST_INTEGER = 2**53 - 1
"""Beyond it, JSON's numbers are not exact."""


class Record(dict[str, Any]):
    """A rebuilt dataclass or named tuple: a dict whose items are attributes as well."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorLeaf(_Node):
    """A tensor; ``name`` is its name in the signature."""

    kind: Literal["tensor"] = "tensor"
    name: str


class ConstantLeaf(_Node):
    """A Python value that the compiled graph has frozen."""

    kind: Literal["constant"] = "constant"
    value: Constant


class Sequence(_Node):
    """A tuple or a list."""

    kind: Literal["tuple", "list"]
    items: tuple[Tree, ...]


class Dict(_Node):
    """A dict with string keys (``dict``), or a class with named fields (``record``).

    ``entries`` are pairs, not a JSON object: their order is the order of the caller's dict, and canonical JSON
    sorts keys.
    """  # noqa: E501 - the text is part of the shipped JSON Schema

    kind: Literal["dict", "record"]
    type: str | None = None
    entries: tuple[tuple[str, Tree], ...]

    @property
    def items(self) -> dict[str, Tree]:
        """Return the entries by key."""
        return dict(self.entries)


Tree = Annotated[TensorLeaf | ConstantLeaf | Sequence | Dict, Field(discriminator="kind")]
Sequence.model_rebuild()
Dict.model_rebuild()


def is_tensor(value: Any) -> bool:
    """Return whether ``value`` is a torch tensor or a numpy array (anything with a shape and a dtype)."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the named fields of a mapping, dataclass, named tuple or registered class, else None."""
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    node = registered(value)
    if node is None:
        return None
    if node.flatten_with_keys_fn is None:
        return {str(i): child for i, child in enumerate(node.flatten_fn(value)[0])}
    return {_field_name(key): child for key, child in node.flatten_with_keys_fn(value)[0]}


def registered(value: Any) -> Any:
    """Return how torch's pytree takes ``value`` apart, if its class was registered there, else None.

    Torch is not imported for it: where it is not loaded, no class can have been registered.
    """
    if isinstance(value, tuple | list):
        return None
    pytree = sys.modules.get("torch.utils._pytree")
    return pytree.SUPPORTED_NODES.get(type(value)) if pytree is not None else None


def _field_name(key: Any) -> str:
    """Return the name in torch's key: of an attribute, of a mapping, or the position in a sequence."""
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def build(value: Any, name: str, *, root: str) -> Tree:
    """Return the tree of ``value``; leaves are named by their path, joined with dots, below ``name``.

    Args:
        value: Nested tuples, lists, dicts, dataclasses, named tuples and classes registered with torch's
            pytree, of tensors and constants.
        name: Path of ``value``; empty for the root of an output.
        root: The name of a leaf or item that has no path of its own (``output``).

    Raises:
        RefusedError: A value of a type that cannot be taken apart, or a dict with keys that are not strings.
    """
    if is_tensor(value):
        return TensorLeaf(name=name or root)
    if value is None or isinstance(value, bool | int | float | str):
        return _constant(value, name or root)
    fields = fields_of(value)
    if fields is not None:
        return _build_dict(value, fields, name, root)
    if isinstance(value, tuple | list):
        prefix = name or root
        items = tuple(build(item, f"{prefix}.{i}", root=root) for i, item in enumerate(value))
        return Sequence(kind="list" if isinstance(value, list) else "tuple", items=items)
    raise RefusedError(
        f"{name or root} is of the type {type(value).__qualname__}, which has no named tensors",
        slug="unsupported-type",
        hint="use tensors, tuples, lists, dicts or dataclasses, or register the class "
        "with torch.utils._pytree.register_pytree_node",
    )


def _constant(value: Any, name: str) -> ConstantLeaf:
    """Return the leaf of a constant; refuse a number that JSON cannot carry exactly."""
    value = _plain(value)
    inexact = isinstance(value, float) and not math.isfinite(value)
    if inexact or (isinstance(value, int) and abs(value) > _LARGEST_INTEGER):
        raise RefusedError(
            f"{name} is the constant {value}, which a signature cannot hold",
            slug="unsupported-type",
            hint="pass it as a tensor",
        )
    return ConstantLeaf(value=value)


def _plain(value: Any) -> Any:
    """Return an enum's member, or a value of another subclass, as the plain value that it is."""
    kind = next((kind for kind in (bool, int, float, str) if isinstance(value, kind)), type(value))
    if type(value) is kind:
        return value
    return str.__str__(value) if kind is str else kind(value)


def _build_dict(value: Any, fields: dict[Any, Any], name: str, root: str) -> Tree:
    if not all(isinstance(key, str) for key in fields):
        raise RefusedError(
            f"{name or root} is a dict with keys that are not strings: {sorted(map(repr, fields))}",
            slug="unsupported-type",
            hint="use string keys",
        )
    entries = tuple(
        (key, build(item, f"{name}.{key}" if name else key, root=root)) for key, item in fields.items()
    )
    plain = type(value) is dict
    return Dict(
        kind="dict" if plain else "record", type=None if plain else type(value).__name__, entries=entries
    )


def refuse_repeated_names(parts: Iterable[Tree]) -> None:
    """Refuse structures in which two tensors have one name: ``{"a.b": x, "a": {"b": y}}``.

    Raises:
        RefusedError: Says which name.
    """
    names = Counter(leaf.name for part in parts for leaf in leaves(part))
    if repeated := [name for name, count in names.items() if count > 1]:
        raise RefusedError(
            f"two tensors would both be called '{repeated[0]}'",
            slug="unsupported-type",
            hint="use keys without dots, and not empty",
        )


def leaves(tree: Tree) -> Iterator[TensorLeaf]:
    """Yield the tensor leaves of ``tree`` in flattening order: items in order, depth first."""
    match tree:
        case TensorLeaf():
            yield tree
        case Sequence():
            for item in tree.items:
                yield from leaves(item)
        case Dict():
            for item in tree.items.values():
                yield from leaves(item)
        case ConstantLeaf():
            return


def flatten(tree: Tree, value: Any, path: str) -> dict[str, Any]:
    """Return the tensors of ``value`` by signature name.

    Raises:
        InputError: ``value`` has another structure, or another value where the graph froze a constant.
    """
    match tree:
        case TensorLeaf():
            if not is_tensor(value):
                raise InputError(f"{path} must be an array, not {type(value).__name__}")
            return {tree.name: value}
        case ConstantLeaf():
            if type(_plain(value)) is not type(tree.value) or value != tree.value:
                raise InputError(
                    f"{path} was frozen as {tree.value!r} at build time and cannot be {value!r}",
                    hint="build again with that value in inputs()",
                )
            return {}
        case Sequence():
            if not isinstance(value, tuple | list) or len(value) != len(tree.items):
                raise InputError(f"{path} must be a {tree.kind} of {len(tree.items)} items")
            parts = [(f"{path}.{i}", t, v) for i, (t, v) in enumerate(zip(tree.items, value, strict=True))]
        case Dict():
            fields = fields_of(value)
            if fields is None or set(fields) != set(tree.items):
                raise InputError(f"{path} must have the fields {sorted(tree.items)}")
            parts = [(f"{path}.{key}", item, fields[key]) for key, item in tree.items.items()]
    flat: dict[str, Any] = {}
    for part_path, part_tree, part_value in parts:
        flat.update(flatten(part_tree, part_value, part_path))
    return flat


def unflatten(tree: Tree, tensors: Mapping[str, Any]) -> Any:
    """Rebuild the nested value from its tensors; dataclasses and named tuples come back as ``Record``."""
    match tree:
        case TensorLeaf():
            return tensors[tree.name]
        case ConstantLeaf():
            return tree.value
        case Sequence():
            items = [unflatten(item, tensors) for item in tree.items]
            return items if tree.kind == "list" else tuple(items)
        case Dict():
            fields = {key: unflatten(item, tensors) for key, item in tree.items.items()}
            return fields if tree.kind == "dict" else Record(fields)


def rename(tree: Tree, new_name: Callable[[str], str]) -> Tree:
    """Return ``tree`` with every tensor name mapped through ``new_name``."""
    match tree:
        case TensorLeaf():
            return TensorLeaf(name=new_name(tree.name))
        case ConstantLeaf():
            return tree
        case Sequence():
            return tree.model_copy(update={"items": tuple(rename(t, new_name) for t in tree.items)})
        case Dict():
            entries = tuple((key, rename(item, new_name)) for key, item in tree.entries)
            return tree.model_copy(update={"entries": entries})


def text_of(tree: Tree) -> str:
    """Return the structure of a tree in Python's own brackets; leaves are names of tensors."""
    match tree:
        case TensorLeaf():
            return tree.name
        case ConstantLeaf():
            return repr(tree.value)
        case Sequence():
            inside = ", ".join(map(text_of, tree.items))
            comma = "," if len(tree.items) == 1 else ""
            return f"[{inside}]" if tree.kind == "list" else f"({inside}{comma})"
        case Dict():
            inside = ", ".join(f"{key}: {text_of(item)}" for key, item in tree.items.items())
            return f"{{{inside}}}" if tree.kind == "dict" else f"{tree.type}({inside})"
