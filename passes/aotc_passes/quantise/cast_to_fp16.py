"""Compute in float16 what float16 can hold: mixed precision, decided at build time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import constant
from aotc.ir.edit import Names, defined_values, take_over
from aotc.ir.scopes import describe, inherit, place
from aotc.rewrite import Context, Pass, PassResult, Refusal, Relation
from aotc_passes.quantise._fp16_range import Kept, decide, full_inputs

_FLOAT, _HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16


@dataclasses.dataclass(frozen=True)
class CastToFp16(Pass):
    """Compute in float16 where that keeps the meaning; inputs and outputs of the graph stay float32.

    Rewrites:
        A standard operator that takes float16 in the place of float32 does so: its float32 constants become
        float16, and a Cast stands where float16 and float32 meet. Operators that add up or raise many values
        stay in float32 (sums, means, powers, exponentials, logarithms, Softmax, InstanceNormalization; the
        list is that of torch.autocast), and so do the angles of Sin and Cos, which positions make. Those
        that compute in float32 inside (LayerNormalization, RMSNormalization) are cast.

    Requires:
        Types of all values, or schemas that tell them.

    Refuses when:
        A constant is beyond float16's largest number, or all of it below its smallest normal one: what reads
        it, and what is computed from that, stays in float32 until an operator bounds it (Softmax, Attention,
        Tanh ...), or for small numbers divides by it. So -3.4e38 in a mask keeps its meaning, also in rows
        in which every entry is masked. Nodes with subgraphs stay in float32 too.

    Numerics:
        Within a budget: a relative RMS error of 0.01 for each output, unless a tolerance is set.
    """

    relation = Relation.WITHIN

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        plan = decide(model)
        halves = [node for node in model.graph if node in plan.halves]
        if halves:
            _Casting(model, plan.halves, plan.half_values).run()
        changes = tuple(f"{place(node)}: {node.op_type} in float16" for node in halves)
        return PassResult(changes, tuple(map(_refusal, plan.kept)))


def _refusal(kept: Kept) -> Refusal:
    return Refusal(f"{kept.node.op_type} stays in float32: {kept.reason}", describe(kept.node))


class _Casting:
    """Turns values and constants into float16 and puts a Cast wherever the two types meet."""

    def __init__(self, model: ir.Model, halves: set[ir.Node], half_values: set[ir.Value]) -> None:
        self._graph, self._names = model.graph, Names(model)
        self._halves, self._half_values = halves, half_values
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def run(self) -> None:
        wanted = [(use, value) for value in self._values() for use in list(value.uses())]
        for value in self._half_values:
            value.type = ir.TensorType(_HALF)
            if value.is_graph_output():
                self._keep_output(value)
        for (user, index), value in wanted:
            to = _HALF if self._reads_half(user, index) else _FLOAT
            if value.dtype != to:
                user.replace_input_with(index, self._as(value, to))
        for value in [v for v in self._graph.initializers.values() if not v.uses()]:
            if not (value.is_graph_output() or value.is_graph_input()):
                del self._graph.initializers[str(value.name)]

    def _values(self) -> Iterator[ir.Value]:
        """Yield the float32 values of the main graph; each may be read as float16."""
        yield from (value for value in defined_values(self._graph) if value.dtype == _FLOAT)

    def _reads_half(self, user: ir.Node, index: int) -> bool:
        return user in self._halves and index not in full_inputs(user)

    def _keep_output(self, value: ir.Value) -> None:
        """Let a Cast to float32 be the graph's output in the place of ``value``, which gets another name."""
        node = ir.node("Cast", [value], {"to": int(_FLOAT)})
        node.replace_input_with(0, None)
        take_over(node.outputs[0], value)
        node.outputs[0].type = ir.TensorType(_FLOAT)
        value.name = self._names.fresh(f"{node.outputs[0].name}_fp16")
        value.shape = node.outputs[0].shape
        node.replace_input_with(0, value)
        self._insert(node, value)
        for user, index in list(node.outputs[0].uses()):
            user.replace_input_with(index, value)
        self._casts[value, _FLOAT] = node.outputs[0]

    def _as(self, value: ir.Value, to: ir.DataType) -> ir.Value:
        """Return ``value`` in the type ``to``: a constant of that type, or the result of a Cast."""
        if (found := self._casts.get((value, to))) is not None:
            return found
        tensor = constant(value)
        if tensor is not None:
            new = self._constant(value, tensor)
        else:
            node = ir.node("Cast", [value], {"to": int(to)})
            new = node.outputs[0]
            new.name = self._names.fresh(f"{value.name}_{'fp16' if to == _HALF else 'fp32'}")
            new.type, new.shape = ir.TensorType(to), value.shape
            self._insert(node, value)
        self._casts[value, to] = new
        return new

    def _constant(self, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
        name = self._names.fresh(f"{value.name}_fp16")
        half = ir.Tensor(tensor.numpy().astype(_HALF.numpy()), name=name)
        new = ir.Value(
            name=name,
            type=ir.TensorType(_HALF),
            shape=value.shape,
            const_value=half,
            metadata_props=dict(value.metadata_props),
        )
        self._graph.initializers.add(new)
        return new

    def _insert(self, node: ir.Node, value: ir.Value) -> None:
        """Put a Cast behind what computes ``value``; at the beginning for an input of the graph."""
        node.name = f"node_{node.outputs[0].name}"
        producer = value.producer()
        if producer is None:
            self._graph.insert_before(self._graph[0], node)
        else:
            inherit(node, [producer])
            self._graph.insert_after(producer, node)
