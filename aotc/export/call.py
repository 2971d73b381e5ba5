"""Binding example inputs to forward, and the flat wrapper that the exporter sees.

The exporter gets a module that takes and returns flat tuples of tensors only. Nested arguments, dataclasses,
None, Python constants and keyword arguments are taken apart and rebuilt in one place, here, with the same
trees that the runtime uses.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aotc import tree
from aotc.errors import UsageError
from aotc.export.caches import register_caches
from aotc.signature import Argument
from aotc.tree import Tree

if TYPE_CHECKING:
    import torch
    from torch import nn

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "variadic",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
}


@dataclasses.dataclass(frozen=True)
class BoundCall:
    """One call of forward: its arguments by parameter, in order."""

    bound: inspect.BoundArguments
    arguments: tuple[Argument, ...]
    flat: dict[str, torch.Tensor]
    """Tensors by input name, in order."""


def bind(module: nn.Module, inputs: Any) -> BoundCall:
    """Bind ``inputs`` (tuple or dict) to the parameters of ``module.forward``.

    Raises:
        UsageError: ``inputs`` is neither, or forward does not take them.
        RefusedError: An argument of a type that has no named tensors.
    """
    import torch

    register_caches()
    bound = _bind(module, inputs)
    arguments: list[Argument] = []
    flat: dict[str, Any] = {}
    for name, kind, value in _parameters(bound):
        part = tree.build(value, name, root=name)
        arguments.append(Argument(name=name, kind=kind, tree=part))
        flat.update(tree.flatten(part, value, name))
    tree.refuse_repeated_names([argument.tree for argument in arguments])
    foreign = [name for name, value in flat.items() if not isinstance(value, torch.Tensor)]
    if foreign:
        kind = type(flat[foreign[0]]).__qualname__
        raise UsageError(
            f"the example input '{foreign[0]}' is a {kind}, not a torch tensor",
            slug="source",
            hint="use torch.from_numpy, or a Python number for a constant",
        )
    return BoundCall(bound, tuple(arguments), flat)


def _bind(module: nn.Module, inputs: Any) -> inspect.BoundArguments:
    parameters = inspect.signature(module.forward)
    try:
        if isinstance(inputs, dict):
            return parameters.bind(**inputs)
        if isinstance(inputs, tuple | list):
            return parameters.bind(*inputs)
    except TypeError as error:
        raise UsageError(
            f"forward{parameters} does not take the example inputs: {error}", slug="source"
        ) from error
    raise UsageError(
        "inputs() must return a tuple of arguments or a dict of keyword arguments, "
        f"not {type(inputs).__name__}",
        slug="source",
    )


def _parameters(bound: inspect.BoundArguments) -> list[tuple[str, Any, Any]]:
    """Return (name, kind, value) of each bound argument; ``**kwargs`` become keywords of their own."""
    result: list[tuple[str, Any, Any]] = []
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            result += [(key, "keyword", item) for key, item in value.items()]
        else:
            result.append((name, _KINDS[parameter.kind], value))
    return result


def rebuild(call: BoundCall, tensors: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return (args, kwargs) of ``call`` with other tensors in the same structure and of the same types."""
    bound = inspect.BoundArguments(call.bound.signature, {})
    values = {a.name: a.tree for a in call.arguments}
    for name, value in call.bound.arguments.items():
        parameter = call.bound.signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {k: _like(v, values[k], tensors) for k, v in value.items()}
        else:
            bound.arguments[name] = _like(value, values[name], tensors)
    return bound.args, bound.kwargs


def _like(example: Any, part: Tree, tensors: Mapping[str, Any]) -> Any:
    """Rebuild ``part`` with the classes of ``example``: dataclasses and named tuples come back as such."""
    match part:
        case tree.TensorLeaf():
            return tensors[part.name]
        case tree.ConstantLeaf():
            return example  # not part.value: an enum's member is more than its value
        case tree.Sequence():
            items = [_like(e, t, tensors) for e, t in zip(example, part.items, strict=True)]
            return items if part.kind == "list" else tuple(items)
        case tree.Dict():
            fields = tree.fields_of(example) or {}
            rebuilt = {key: _like(fields[key], t, tensors) for key, t in part.items.items()}
            return rebuilt if type(example) is dict else _instance(example, rebuilt)


def _instance(example: Any, fields: dict[str, Any]) -> Any:
    """Return an object like ``example`` with other fields."""
    plain = isinstance(example, Mapping) or dataclasses.is_dataclass(example)
    node = None if plain else tree.registered(example)
    if node is None:
        return type(example)(**fields)
    return node.unflatten_fn(list(fields.values()), node.flatten_fn(example)[1])


def flat_module(module: nn.Module, call: BoundCall, on_result: Callable[[Tree], None]) -> nn.Module:
    """Return a module that takes the tensors of ``call`` one by one and returns a flat tuple of tensors.

    ``on_result`` is told the tree of the nested result at each call; torch.export traces copies of modules,
    so an attribute would not survive.
    """
    from torch import nn

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module
            self.training = False  # and not eval(): a module of torch.export has none

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            args, kwargs = rebuild(call, dict(zip(call.flat, tensors, strict=True)))
            value = self.module(*args, **kwargs)
            result = tree.build(value, "", root="output")
            tree.refuse_repeated_names([result])
            on_result(result)
            return tuple(tree.flatten(result, value, "output").values())

    return Flat()
