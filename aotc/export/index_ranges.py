"""Which inputs are indices, and of what: found in the graph, confirmed by eager.

PyTorch raises for an index that is out of range; ONNX Runtime reads index -1 as the last row, and some
kernels do not check at all. So the range of every index input is stored in the signature and checked by the
runtime.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc import dims
from aotc.export.index_guards import guarded_index
from aotc.ir import scopes
from aotc.signature import IndexRange

Array = np.ndarray[Any, Any]
Raises = Callable[[Mapping[str, Array]], bool]
"""Runs eager on flat inputs and says whether it raised."""

_SAME_VALUES = {"Identity", "Cast", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Transpose", "Flatten"}
_SOME_VALUES = {"Slice", "Split", "Gather", "Concat"}
_MAX_PROBES = 32


@dataclasses.dataclass(frozen=True)
class _Use:
    """An input used as an index of an axis of ``size``; ``partial`` if perhaps not all of its entries are."""

    input: str
    size: dims.Size
    node: ir.Node
    partial: bool = False

    @property
    def written(self) -> bool:
        """Return whether the index says where to write."""
        reduction = self.node.attributes.get_string("reduction", "none")
        return self.node.op_type.startswith("Scatter") and reduction == "none"


def find_index_ranges(
    model: ir.Model, example: Mapping[str, Array], sizes: Mapping[str, int], raises: Raises
) -> dict[str, IndexRange]:
    """Return the allowed values of each index input of ``model``.

    The graph says which axis an input indexes; eager, run with one entry just outside, says whether negative
    values count from the end (``x[i]``) or are refused (``F.embedding``).

    Args:
        model: The imported graph.
        example: Example inputs by name; each entry of a probed input is within range.
        sizes: Size of each dim in ``example``.
        raises: Runs eager.
    """
    uses: dict[str, list[_Use]] = {}
    for node in model.graph.all_nodes():
        for value, size in _indexed_axes(node):
            for use in _origins(value, _Use("", size, node)):
                uses.setdefault(use.input, []).append(use)
    found: dict[str, IndexRange] = {}
    for name, entries in uses.items():
        confirmed = (_confirm(name, use, example, sizes, raises) for use in _narrowest_first(entries))
        if (allowed := next((each for each in confirmed if each is not None), None)) is not None:
            found[name] = allowed
    return found


def _indexed_axes(node: ir.Node) -> Iterator[tuple[ir.Value, dims.Size]]:
    """Yield (index value, size of the axis it indexes) of ``node``."""
    if node.domain or len(node.inputs) < 2:
        return
    data, indices = node.inputs[0], node.inputs[1]
    if data is None or indices is None or data.shape is None:
        return
    if node.op_type in ("Gather", "GatherElements", "ScatterElements"):
        axis = node.attributes.get_int("axis", 0)
        if data.shape.rank():
            yield from _sized(indices, data.shape[axis])
    elif node.op_type in ("GatherND", "ScatterND"):
        first = node.attributes.get_int("batch_dims", 0)
        for offset, part in enumerate(_index_columns(indices)):
            yield from _sized(part, data.shape[first + offset])


def _sized(value: ir.Value, dim: Any) -> Iterator[tuple[ir.Value, dims.Size]]:
    size = dim if isinstance(dim, int) else dim.value
    if size is not None:
        yield value, size


def _index_columns(indices: ir.Value) -> list[ir.Value]:
    """Split the last axis of a GatherND's indices into the values it was concatenated from."""
    if indices.shape is not None and indices.shape.rank() and indices.shape[-1] == 1:
        return [indices]
    node = indices.producer()
    if node is None or node.op_type != "Concat":
        return []
    axis, rank = node.attributes.get_int("axis", 0), indices.shape.rank() if indices.shape is not None else 0
    parts = [v for v in node.inputs if v is not None]
    single = all(v.shape is not None and v.shape.rank() and v.shape[-1] == 1 for v in parts)
    return parts if single and axis in (-1, rank - 1) else []


def _origins(value: ir.Value, use: _Use) -> Iterator[_Use]:
    """Follow ``value`` back to graph inputs through operators that keep values as they are."""
    if value.is_graph_input():
        if value.dtype is not None and value.dtype.is_integer():
            yield dataclasses.replace(use, input=str(value.name))
        return
    node = value.producer()
    if node is None or node.domain:
        return
    if (index := guarded_index(node)) is not None:
        yield from _origins(index, use)
    elif node.op_type in _SAME_VALUES and node.inputs[0] is not None:
        yield from _origins(node.inputs[0], use)
    elif node.op_type in _SOME_VALUES:
        sources = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        for source in sources:
            if source is not None:
                partial = use.partial or node.op_type != "Concat"
                yield from _origins(source, dataclasses.replace(use, partial=partial))


def _narrowest_first(uses: list[_Use]) -> Iterator[_Use]:
    """Yield one use for each axis size, smallest first; symbolic sizes come after the fixed ones."""
    by_size: dict[dims.Size, list[_Use]] = {}
    for use in uses:
        by_size.setdefault(use.size, []).append(use)
    for size in sorted(by_size, key=lambda size: (isinstance(size, str), size)):
        same = by_size[size]
        best = next((use for use in same if use.written), same[0])
        yield dataclasses.replace(best, partial=all(use.partial for use in same))


def _confirm(
    name: str, use: _Use, example: Mapping[str, Array], sizes: Mapping[str, int], raises: Raises
) -> IndexRange | None:
    """Run eager just outside the range; None if some entry is not used as an index after all."""
    if example[name].size == 0 or not dims.symbols(use.size) <= sizes.keys():
        return None
    size = dims.evaluate(use.size, sizes)
    probes = range(min(example[name].size, _MAX_PROBES)) if use.partial else [0]
    if not _holds(example[name], size):
        return None  # no value of this type is out of range
    if not all(raises(_with_entry(example, name, position, size)) for position in probes):
        return None
    negative = _holds(example[name], -1) and not raises(_with_entry(example, name, 0, -1))
    fixed = isinstance(use.size, int)
    return IndexRange(
        low=0 if not negative else -size if fixed else f"-({use.size})",
        high=size - 1 if fixed else f"({use.size}) - 1",
        origin=scopes.describe(use.node),
        unique=use.written,
    )


def _holds(values: Array, value: int) -> bool:
    limits = np.iinfo(values.dtype)
    return int(limits.min) <= value <= int(limits.max)


def _with_entry(example: Mapping[str, Array], name: str, position: int, value: int) -> dict[str, Array]:
    probe = example[name].copy()
    probe.reshape(-1)[position] = value
    return {**example, name: probe}
