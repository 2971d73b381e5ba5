"""The tensors to trace with: torch.export takes a dynamic axis of size 0 or 1 as fixed, so it sees others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aotc import dims
from aotc.export.axes import Axes

if TYPE_CHECKING:
    import torch

_SIZE = 3


def tensors_to_trace(
    observed: Sequence[Mapping[str, torch.Tensor]], axes: Axes
) -> Mapping[str, torch.Tensor]:
    """Return the first input set whose dynamic axes all have at least 2 entries, else the example widened.

    Args:
        observed: Input sets of the source, the example first.
        axes: The dynamic axes.
    """
    example = observed[0]
    fixed = _fixed_shapes(example, axes)
    for tensors in observed:
        small = any(
            index < tensors[name].ndim and tensors[name].shape[index] < 2
            for name, found in axes.items()
            if name in tensors
            for index in found
        )
        if not small and _fixed_shapes(tensors, axes) == fixed:
            return tensors
    return _widened(example, axes)


def _fixed_shapes(tensors: Mapping[str, torch.Tensor], axes: Axes) -> dict[str, list[int | None]]:
    """Return the shapes with None for each dynamic axis."""
    return {
        name: [None if index in axes.get(name, {}) else size for index, size in enumerate(tensor.shape)]
        for name, tensor in tensors.items()
    }


def _widened(example: Mapping[str, torch.Tensor], axes: Axes) -> dict[str, torch.Tensor]:
    """Repeat entries, so that every index stays in range and every mask valid; an empty axis gets zeros.

    An axis that is an expression of dims (``2*batch``) follows them.
    """
    sizes: dict[str, int] = {}
    for name, found in axes.items():
        for index, axis in found.items():
            if dims.is_symbol(axis.name or 0) and index < example[name].ndim:
                have = example[name].shape[index]
                sizes.setdefault(str(axis.name), have if have > 1 else _SIZE)
    tensors = {}
    for name, tensor in example.items():
        wide = tensor.detach()
        for index, axis in axes.get(name, {}).items():
            if index < wide.ndim:
                known = axis.name is not None and dims.symbols(axis.name) <= sizes.keys()
                have = wide.shape[index]
                want = dims.evaluate(str(axis.name), sizes) if known else have if have > 1 else _SIZE
                wide = _resized(wide, index, want)
        tensors[name] = wide
    return tensors


def _resized(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    import torch

    have = tensor.shape[axis]
    if have == size:
        return tensor
    if have == 0:
        return tensor.new_zeros([*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]])
    return tensor.index_select(axis, torch.arange(size) % have)
