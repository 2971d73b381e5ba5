"""Sum int64 in two halves, because ONNX Runtime adds it up in double precision."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import constant, new_initializer
from aotc.ir.edit import Names
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal

_HALF = 2**32
_NARROW = (ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.INT16, ir.DataType.UINT8, ir.DataType.UINT16)


@dataclasses.dataclass(frozen=True)
class ExactIntegerSum(Pass):
    """Split a sum of int64 into the sums of its low and high 32 bits.

    Rewrites:
        ReduceSum(x) of int64 becomes ``ReduceSum((x - low) / 2**32) * 2**32 + ReduceSum(low)`` with
        ``low = x & 0xFFFFFFFF``.

    Requires:
        Known dtypes.

    Refuses when:
        The values are cast from booleans or from at most 16 bits: their sum is exact as it is.

    Numerics:
        Exact, and wraps around as int64 does, up to 2**21 entries a sum; the kernel's double precision is
        exact up to 2**53, and it clamps what is larger than int64.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        names = Names(model)
        for graph in graphs(model):
            for node in list(graph):
                source = node.inputs[0] if is_op(node, "ReduceSum") else None
                if source is None or source.dtype != ir.DataType.INT64 or _is_half(source):
                    continue
                if _is_narrow(source):
                    reason = f"'{source.name}' is cast from a narrow type: its sum is exact as it is"
                    refusals.append(Refusal(reason, describe(node)))
                else:
                    _split(node, source, names)
                    changes.append(f"{place(node)}: int64 is summed in two halves")
        return PassResult(tuple(changes), tuple(refusals))


def _is_narrow(value: ir.Value) -> bool:
    node = value.producer()
    before = node.inputs[0] if node is not None and is_op(node, "Cast") else None
    return before is not None and before.dtype in _NARROW


def _is_half(value: ir.Value) -> bool:
    """Return whether ``value`` is a half that this pass made."""
    node = value.producer()
    limit = constant(node.inputs[1]) if node is not None and node.op_type in ("BitwiseAnd", "Div") else None
    return limit is not None and limit.size == 1 and int(limit.numpy().item()) in (_HALF, _HALF - 1)


def _split(node: ir.Node, source: ir.Value, names: Names) -> None:
    """Put the two sums in the place of ``node``, which becomes the last addition."""
    graph = node.graph
    assert graph is not None
    nodes: list[ir.Node] = []

    def number(value: int) -> ir.Value:
        made = new_initializer(names.fresh("half"), ir.Tensor(np.asarray(value, np.int64)), [])
        graph.initializers.add(made)
        return made

    def add(op_type: str, inputs: list[Any], like: ir.Value, stem: str, **attributes: Any) -> ir.Value:
        new = ir.node(op_type, inputs, attributes)
        value = new.outputs[0]
        value.name = names.fresh(f"{node.outputs[0].name}_{stem}")
        new.name = f"node_{value.name}"
        value.type, value.shape = ir.TensorType(ir.DataType.INT64), like.shape
        inherit(new, [node])
        nodes.append(new)
        return value

    axes, total = list(node.inputs[1:]), node.outputs[0]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    size = number(_HALF)
    low = add("BitwiseAnd", [source, number(_HALF - 1)], source, "low")
    rest = add("Sub", [source, low], source, "rest")
    high = add("Div", [rest, size], source, "high")
    low_sum = add("ReduceSum", [low, *axes], total, "low_sum", **attributes)
    high_sum = add("ReduceSum", [high, *axes], total, "high_sum", **attributes)
    shifted = add("Mul", [high_sum, size], total, "high_part")
    last = ir.node("Add", [shifted, low_sum], outputs=None, name=node.name)
    inherit(last, [node])
    nodes.append(last)
    graph.insert_before(node, nodes)
    total.replace_all_uses_with(last.outputs[0], replace_graph_outputs=True)
    name, total.name = total.name, None
    last.outputs[0].name, last.outputs[0].type, last.outputs[0].shape = name, total.type, total.shape
    graph.remove(node, safe=True)
