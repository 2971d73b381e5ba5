"""Float16 made explicit: a graph in float32 whose every value is rounded as the float16 graph says.

ONNX Runtime has few float16 kernels on the CPU. It computes in float32 for the rest and takes out the casts
in between, so that neither rounding nor overflow of float16 shows. Casts that a graph has itself stay.
"""

from __future__ import annotations

import onnx_ir as ir

from aotc.ir.edit import Names
from aotc.ir.walk import graphs, is_op

_HALF, _FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT
_AS_IS = ("Cast", "CastLike", "Shape", "Size", "QuantizeLinear", "DequantizeLinear")


def round_explicitly(model: ir.Model) -> bool:
    """Let every node that reads float16 compute in float32 and round its results; return whether one did.

    A Cast stands before each such operand and behind each such result, in place of the type of the node.
    """
    names, found = Names(model), False
    for graph in graphs(model):
        for node in list(graph):
            halves = [index for index, value in enumerate(node.inputs) if _is_half(value)]
            if halves and not is_op(node, *_AS_IS):
                found = True
                for index in halves:
                    _widen(node, index, names)
                for value in [value for value in node.outputs if _is_half(value)]:
                    _round(node, value, names)
    return found


def _is_half(value: ir.Value | None) -> bool:
    return value is not None and isinstance(value.type, ir.TensorType) and value.dtype == _HALF


def _widen(node: ir.Node, index: int, names: Names) -> None:
    value, graph = node.inputs[index], node.graph
    assert value is not None
    assert graph is not None
    cast = _cast(value, _FLOAT, names.fresh(f"{value.name}_wide"))
    graph.insert_before(node, cast)
    node.replace_input_with(index, cast.outputs[0])


def _round(node: ir.Node, value: ir.Value, names: Names) -> None:
    """Let ``value`` be float32, and its rounded form stand for it everywhere, under its name."""
    graph = node.graph
    assert graph is not None
    cast = ir.node("Cast", [None], {"to": int(_HALF)})
    rounded = cast.outputs[0]
    value.replace_all_uses_with(rounded, replace_graph_outputs=True)
    rounded.name, value.name = value.name, names.fresh(f"{value.name}_exact")
    rounded.type, value.type = ir.TensorType(_HALF), ir.TensorType(_FLOAT)
    rounded.shape = value.shape
    cast.replace_input_with(0, value)
    cast.name = f"node_{rounded.name}_rounded"
    graph.insert_after(node, cast)


def _cast(value: ir.Value, to: ir.DataType, name: str) -> ir.Node:
    node = ir.node("Cast", [value], {"to": int(to)}, name=f"node_{name}")
    node.outputs[0].name, node.outputs[0].type = name, ir.TensorType(to)
    node.outputs[0].shape = value.shape
    return node
