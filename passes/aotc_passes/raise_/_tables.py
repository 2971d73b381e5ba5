"""Cosines and sines of rotary embeddings: does every entry occur twice, and their form for the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.ir.constants import constant, new_initializer, sources
from aotc.ir.edit import Names
from aotc.ir.scopes import inherit
from aotc.ir.walk import is_op
from aotc.oracle import Oracle
from aotc.rewrite.cone import SOURCE, Array, cones, evaluate
from aotc_passes.raise_._raising import FLOATS

_COPIES = frozenset({"Gather", "Unsqueeze", "Squeeze", "Cast", "Identity"})
_INSIDE = _COPIES | {"Concat", "Cos", "Sin", "Mul", "Add", "Reshape", "Transpose", "Expand", "Slice"}
_MOST_ENTRIES = 1 << 16
_LAST = 2**62


def double(half: Array, interleaved: bool) -> Array:
    """Return ``half`` with every entry twice: side by side if ``interleaved``, else half behind half."""
    return np.repeat(half, 2, -1) if interleaved else np.concatenate([half, half], -1)


def holds_doubled(
    value: ir.Value, interleaved: bool, oracle: Oracle, opset_imports: Mapping[str, int]
) -> bool:
    """Return whether ``double`` made ``value``, whatever the inputs of the graph are."""
    while (node := value.producer()) is not None and _copies_last_axis(node):
        assert node.inputs[0] is not None
        value = node.inputs[0]
    if (tensor := constant(value)) is not None:
        return _is_doubled(tensor.numpy(), interleaved)
    if node is None or node.graph is None or not is_op(node, *_INSIDE):
        return False
    order = {each: index for index, each in enumerate(node.graph)}
    for cone in cones(node, order, _INSIDE):
        sizes, dtype = _sizes(cone.source), cone.source.dtype
        if cone.parameters or sizes is None or dtype is None or dtype not in FLOATS:
            continue
        feed = np.random.default_rng(0).standard_normal(sizes).astype(dtype.numpy())
        try:
            own, _ = evaluate(cone, oracle, opset_imports, {SOURCE: feed})
        except RefusedError:
            continue
        # Fewer different numbers, and they may be equal because of what was drawn.
        if 2 * np.unique(own).size > own.shape[-1] and _is_doubled(own, interleaved):
            return True
    return False


def operator_form(
    value: ir.Value, interleaved: bool | None, batch: tuple[ir.Value, int] | int | None, names: Names
) -> ir.Value:
    """Return ``value``, or half of it, as (batch, sequence, entries), computed right behind it.

    Args:
        value: Of the shape (sequence, entries), (1 or batch, sequence, entries) or (1 or batch, 1, sequence,
            entries).
        interleaved: Which half; None for the whole.
        batch: Its size, or a value and its axis of that size, where ``value`` has 1 row instead.
        names: Of the model.
    """
    graph, producer = value.graph, value.producer()
    assert isinstance(graph, ir.Graph)
    assert value.shape is not None
    rank, rows, nodes = value.shape.rank(), value, list[ir.Node]()

    def number(stem: str, *numbers: int) -> ir.Value:
        tensor = ir.Tensor(np.array(numbers, np.int64))
        held = new_initializer(names.fresh(f"{value.name}_{stem}"), tensor, [])
        graph.initializers.add(held)
        return held

    def add(op_type: str, stem: str, *inputs: Any, **attributes: Any) -> ir.Value:
        node = ir.node(op_type, inputs, attributes)
        node.outputs[0].name, node.outputs[0].type = names.fresh(f"{value.name}_{stem}"), value.type
        node.name = f"node_{node.outputs[0].name}"
        inherit(node, [producer] if producer is not None else [])
        nodes.append(node)
        return node.outputs[0]

    if interleaved is not None:
        step, stop = (2, _LAST) if interleaved else (1, _entries(value) // 2)
        cut = [number(stem, n) for stem, n in (("from", 0), ("to", stop), ("axis", rank - 1), ("by", step))]
        rows = add("Slice", "half", value, *cut)
    if rank == 4:
        rows = add("Squeeze", "rows", rows, number("heads", 1))
    elif rank == 2:
        rows = add("Unsqueeze", "rows", rows, number("batch", 0))
    if isinstance(batch, int):
        rows = add("Expand", "rows_of_all", rows, number("target", batch, 1, 1))
    elif batch is not None:
        length = add("Shape", "length", batch[0], start=batch[1], end=batch[1] + 1)
        target = add("Concat", "target", length, number("ones", 1, 1), axis=0)
        length.type = target.type = ir.TensorType(ir.DataType.INT64)
        rows = add("Expand", "rows_of_all", rows, target)
    _insert(graph, producer, nodes)
    return rows


def constant_form(value: ir.Value, interleaved: bool | None, batch: int | None, names: Names) -> ir.Value:
    """Return the constant ``value``, or half of it, as a constant (rows or batch, sequence, entries)."""
    tensor, graph = constant(value), value.graph
    assert tensor is not None
    assert isinstance(graph, ir.Graph)
    array = tensor.numpy() if interleaved is None else _half_of(tensor.numpy(), interleaved)
    array = np.repeat(array.reshape(-1, *array.shape[-2:]), batch or 1, 0)
    rows = ir.Tensor(np.ascontiguousarray(array), dtype=tensor.dtype)
    made = new_initializer(names.fresh(f"{value.name}_rows"), rows, sources([value]))
    graph.initializers.add(made)
    return made


def _half_of(array: Array, interleaved: bool) -> Array:
    return array[..., ::2] if interleaved else array[..., : array.shape[-1] // 2]


def _is_doubled(array: Array, interleaved: bool) -> bool:
    return np.array_equal(double(_half_of(array, interleaved), interleaved), array)


def _entries(value: ir.Value) -> int:
    size = value.shape[-1] if value.shape is not None else None
    assert isinstance(size, int)
    return size


def _insert(graph: ir.Graph, producer: ir.Node | None, nodes: list[ir.Node]) -> None:
    if producer is not None:
        graph.insert_after(producer, nodes)
    else:
        graph.insert_before(graph[0], nodes)


def _copies_last_axis(node: ir.Node) -> bool:
    """Return whether the last axis of the result is that of the first input, entry by entry."""
    before, after = node.inputs[0] if node.inputs else None, node.outputs[0]
    if not is_op(node, *_COPIES) or before is None or before.shape is None or after.shape is None:
        return False
    rank = before.shape.rank()
    if rank == 0 or after.shape.rank() == 0:
        return False
    if node.op_type == "Gather" and node.attributes.get_int("axis", 0) % rank == rank - 1:
        return False
    size = before.shape[-1]
    return isinstance(size, int) and size == after.shape[-1] and size > 1


def _sizes(value: ir.Value) -> tuple[int, ...] | None:
    """Return sizes to run with: 3 for those that are not known."""
    if value.shape is None:
        return None
    sizes = tuple(dim if isinstance(dim, int) else 3 for dim in value.shape)
    return sizes if 1 < np.prod(sizes, dtype=np.int64) <= _MOST_ENTRIES else None
