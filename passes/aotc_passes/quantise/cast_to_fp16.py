"""Compute in float16 what float16 can hold: mixed precision, decided at build time."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import constant, new_initializer, sources
from aotc.ir.edit import Names, defined_values, discard_dead_initializers, take_over
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal, Relation
from aotc_passes.quantise._fp16_range import Kept, Plan, decide
from aotc_passes.quantise._fp16_types import Types

_FLOAT, _HALF = ir.DataType.FLOAT, ir.DataType.FLOAT16


@dataclasses.dataclass(frozen=True)
class CastToFp16(Pass):
    """Compute in float16 where that keeps the meaning; inputs and outputs of the graph stay float32.

    Rewrites:
        A standard operator that takes float16 in the place of float32 does so: its float32 constants become
        float16, and a Cast stands where float16 and float32 meet. Operators that add up or raise many values
        stay in float32 (sums, means, powers, exponentials, logarithms, Softmax, InstanceNormalization; the
        list is that of torch.autocast, and those that compare, round, sort, quantise or keep a state), and so
        do the angles of Sin and Cos, which positions make. Those that compute in float32 inside
        (LayerNormalization, RMSNormalization) are cast.

    Requires:
        Types of all values, or schemas that tell them.

    Refuses when:
        A constant is beyond float16's largest number, or all of it below its smallest normal one: what reads
        it, and what is computed from that, stays in float32 until an operator bounds it (Softmax, Attention,
        Tanh ...), or for small numbers divides by it. So -3.4e38 in a mask keeps its meaning, also in rows
        in which every entry is masked; and so does -10000, beside which scores would vanish. Nodes with
        subgraphs stay in float32 too.

    Numerics:
        Within a budget: a relative RMS error of 0.01 for each output, unless a tolerance is set.
    """

    relation = Relation.WITHIN

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        types = Types(model.graph)
        plan = decide(model.graph, types)
        if plan.halves:
            _Casting(model, types, plan).run()
        changes = tuple(f"{place(node)}: {node.op_type} in float16" for node in plan.halves)
        return PassResult(changes, tuple(map(_refusal, plan.kept)))


def _refusal(kept: Kept) -> Refusal:
    return Refusal(f"{kept.node.op_type} stays in float32: {kept.reason}", describe(kept.node))


class _Casting:
    """Turns values and constants into float16 and puts a Cast wherever the two types meet."""

    def __init__(self, model: ir.Model, types: Types, plan: Plan) -> None:
        self._graph, self._names = model.graph, Names(model)
        self._types, self._plan = types, plan
        self._casts: dict[ir.Value, ir.Value] = {}

    def run(self) -> None:
        values = [value for value in defined_values(self._graph) if self._types.is_float32(value)]
        uses = [(user, index, value) for value in values for user, index in list(value.uses())]
        for value in self._plan.values:
            value.type = ir.TensorType(_HALF)
            if value.is_graph_output():
                self._keep_output(value)
        for user, index, value in uses:
            half = index in self._plan.halves.get(user, ())
            if half != (value in self._plan.values) and not is_op(user, "Shape", "Size"):
                user.replace_input_with(index, self._in_other_type(value))
        discard_dead_initializers(values)

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
        self._casts[value] = node.outputs[0]

    def _in_other_type(self, value: ir.Value) -> ir.Value:
        """Return a float32 value as float16, and one that is float16 now as float32."""
        if value not in self._casts:
            tensor = constant(value)
            self._casts[value] = self._cast(value) if tensor is None else self._constant(value, tensor)
        return self._casts[value]

    def _cast(self, value: ir.Value) -> ir.Value:
        to, suffix = (_FLOAT, "fp32") if value in self._plan.values else (_HALF, "fp16")
        node = ir.node("Cast", [value], {"to": int(to)})
        new = node.outputs[0]
        new.name = self._names.fresh(f"{value.name}_{suffix}")
        new.type, new.shape = ir.TensorType(to), value.shape
        self._insert(node, value)
        return new

    def _constant(self, value: ir.Value, tensor: ir.TensorProtocol) -> ir.Value:
        half = ir.Tensor(tensor.numpy().astype(_HALF.numpy()))
        new = new_initializer(self._names.fresh(f"{value.name}_fp16"), half, sources([value]))
        self._graph.initializers.add(new)
        return new

    def _insert(self, node: ir.Node, value: ir.Value) -> None:
        """Put a Cast behind what computes ``value``; at the beginning for an input of the graph."""
        node.name = f"node_{node.outputs[0].name}"
        producer = value.producer()
        if producer is None:
            inherit(node, [use.node for use in value.uses() if use.node is not node])
            self._graph.insert_before(self._graph[0], node)
        else:
            inherit(node, [producer])
            self._graph.insert_after(producer, node)
