"""Hugging Face caches: transformers' ``DynamicCache`` as named tensors.

torch's pytree takes a class apart if somebody registered it; transformers leaves that to the user. See
https://github.com/pytorch/pytorch/issues/155862.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

from aotc.errors import RefusedError

_FIELDS = ("key_cache", "value_cache")


def register_caches() -> None:
    """Register ``DynamicCache`` with torch's pytree, if transformers is loaded and nobody has done it."""
    transformers = sys.modules.get("transformers.cache_utils")
    if transformers is None:
        return
    from torch.utils import _pytree as pytree

    kind = transformers.DynamicCache
    if kind not in pytree.SUPPORTED_NODES:
        pytree.register_pytree_node(
            kind,
            _flatten,
            _unflatten,
            flatten_with_keys_fn=_flatten_with_keys,
            serialized_type_name=kind.__name__,
        )


def _flatten(cache: Any) -> tuple[list[Any], Any]:
    """Return the keys and the values of each layer; the context is the cache itself."""
    odd = [type(layer).__name__ for layer in cache.layers if type(layer).__name__ != "DynamicLayer"]
    if odd:
        raise RefusedError(
            f"the cache holds a {odd[0]}, which counts in Python how many tokens it has seen",
            slug="unsupported-type",
            hint="use a DynamicCache without sliding windows, or pass keys and values as tensors",
        )
    return [[layer.keys for layer in cache.layers], [layer.values for layer in cache.layers]], cache


def _flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
    from torch.utils import _pytree as pytree

    children, context = _flatten(cache)
    return [(pytree.MappingKey(name), child) for name, child in zip(_FIELDS, children, strict=True)], context


def _unflatten(children: Any, example: Any) -> Any:
    """Return a cache like ``example`` with other keys and values."""
    cache = copy.copy(example)
    cache.layers = [copy.copy(layer) for layer in example.layers]
    for layer, keys, values in zip(cache.layers, *children, strict=True):
        layer.keys, layer.values = keys, values
    return cache
