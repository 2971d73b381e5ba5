"""What a mask that depends on sizes alone looks like, by evaluating it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc import dims
from aotc.errors import InputError, RefusedError
from aotc.ir.constants import constant
from aotc.ir.prefix import part
from aotc.ir.walk import is_op, subgraphs
from aotc.oracle import Oracle

Array = np.ndarray[Any, Any]
_MOST_NODES = 200
_LARGEST = 2050
"""Masks with numbers above are not evaluated: the square of it is what one evaluation costs."""
_MOST_ENTRIES = 2**24
_MOST_SIZES = 100
_NO_SIZE = 10**6
_SMALL = (1, 2, 3, 7)


def evaluated(value: ir.Value, model: ir.Model, oracle: Oracle) -> list[Array] | None:
    """Return ``value`` at many sizes; None if it depends on more than sizes, or would be too large.

    The sizes of its last two axes are small ones, and those around every number in the operators that compute
    it, sums and products of two of them, and every size of their constants: where a mask made of comparisons
    can change its form.
    """
    if (tensor := constant(value)) is not None:
        return [np.asarray(tensor.numpy())]
    found = _cone(value, model.graph)
    if found is None or value.shape is None:
        return None
    shapes, constants = found
    around = _around(constants)
    if around is None or len(around) > _MOST_SIZES:
        return None
    model = part(model, [str(each.name) for each in shapes], [str(value.name)])
    results = []
    for sizes in _assignments(value, shapes, sorted({*_SMALL, *around})):
        try:
            if math.prod(_size(dim, sizes) for dim in value.shape) > _MOST_ENTRIES:
                return None
            feeds = {str(each.name): _shape_at(each, sizes) for each in shapes}
            (result,) = oracle.run(model, feeds).values()
        except (RefusedError, InputError):
            continue
        # A table of positions that is too small gives fewer rows: those sizes fail in the model too.
        if result.shape[-2:] == tuple(_size(dim, sizes) for dim in list(value.shape)[-2:]):
            results.append(result)
    return results if len(results) >= len(_SMALL) else None


def _cone(end: ir.Value, graph: ir.Graph) -> tuple[list[ir.Value], list[ir.TensorProtocol]] | None:
    """Return the shapes and the constants that ``end`` is computed from; None if from anything else."""
    shapes: dict[ir.Value, None] = {}
    constants: list[ir.TensorProtocol] = []
    pending, seen = [end], {end}
    while pending:
        value = pending.pop()
        node = value.producer()
        if (tensor := constant(value)) is not None:
            constants.append(tensor)
        elif (
            node is None
            or node.graph is not graph
            or node.domain
            or any(True for _ in subgraphs(node))
            or len(seen) > _MOST_NODES
        ):
            return None
        elif is_op(node, "Shape"):
            source = node.inputs[0]
            if source is None or source.shape is None or source.shape.has_unknown_dim():
                return None
            shapes[value] = None
        else:
            new = [each for each in node.inputs if each is not None and each not in seen]
            seen.update(new)
            pending.extend(new)
    return list(shapes), constants


def _around(constants: list[ir.TensorProtocol]) -> set[int] | None:
    """Return the sizes next to all numbers in ``constants``; None if one is too large.

    Also next to the sum and the product of any two: a block of 64 may be compared with another 64 before it.
    """
    axes = {int(size) for tensor in constants for size in tensor.shape.numpy()}
    numbers: set[int] = set()
    for tensor in constants:
        if tensor.dtype != ir.DataType.STRING:
            array = np.abs(np.asarray(tensor.numpy()).astype(np.float64))
            numbers.update(int(number) for number in np.unique(array[np.isfinite(array)].astype(np.int64)))
    # What is left out here is no size: a fill of masked scores, or "to the end" of a Slice.
    numbers = {number for number in numbers if 2 <= number < _NO_SIZE}
    pairs = itertools.combinations_with_replacement(sorted(numbers), 2) if len(numbers) <= _MOST_SIZES else ()
    numbers |= axes.union(*({a + b, a * b} for a, b in pairs))
    if any(number > _LARGEST for number in numbers) or len(numbers) > _MOST_SIZES:
        return None
    return {near for number in numbers if number >= 2 for near in (number - 1, number, number + 1)}


def _assignments(value: ir.Value, shapes: list[ir.Value], sizes: list[int]) -> Iterator[Mapping[str, int]]:
    """Yield sizes of all symbols: those of the last two axes of ``value`` vary, each and both."""
    assert value.shape is not None
    own = sorted({symbol for dim in list(value.shape)[-2:] for symbol in _symbols(dim)})
    read = {symbol for each in shapes for dim in _dims(each) for symbol in _symbols(dim)}
    others = dict.fromkeys(sorted(read - set(own)), 2)
    if len(own) <= 1:
        for size in sizes:
            yield {**others, **dict.fromkeys(own, size)}
    else:
        for pair in [pair for each in itertools.pairwise(sizes) for pair in (each, each[::-1])]:
            yield {**others, **{symbol: pair[index % 2] for index, symbol in enumerate(own)}}


def _dims(shape: ir.Value) -> list[int | ir.SymbolicDim]:
    """Return the dims that the result of a Shape node holds."""
    node = shape.producer()
    assert node is not None
    source = node.inputs[0]
    assert source is not None
    assert source.shape is not None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(source.shape))
    return list(source.shape)[start:end]


def _symbols(dim: int | ir.SymbolicDim) -> frozenset[str]:
    return frozenset() if isinstance(dim, int) else dims.symbols(str(dim.value))


def _size(dim: int | ir.SymbolicDim, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else dims.evaluate(str(dim.value), sizes)


def _shape_at(shape: ir.Value, sizes: Mapping[str, int]) -> Array:
    return np.array([_size(dim, sizes) for dim in _dims(shape)], np.int64)
