"""What TensorRT's parser takes without an error and computes otherwise: refused before it sees the graph."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.ir.scopes import describe
from aotc.ir.walk import graphs, is_op

_STANDARD = ("", "ai.onnx")
_DTYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")
_NONPAD_KV_SEQLEN = 6
"""The input of Attention (opset 24) that says how many keys of each row count."""


def refuse_traps(model: ir.Model) -> None:
    """Refuse a graph of which TensorRT-RTX 1.7 would build something else.

    It imports a node of any domain by the operator's name alone, turns float64 into float32 (inputs and
    outputs of the engine as well), and leaves out the ``nonpad_kv_seqlen`` of Attention.

    Raises:
        RefusedError: Names the node, its module and line.
    """
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.dtype == ir.DataType.DOUBLE:
            _refuse(f"'{value.name}' is float64, which TensorRT turns into float32", None, _FLOAT32)
    for graph in graphs(model):
        for value in graph.initializers.values():
            if value.dtype == ir.DataType.DOUBLE:
                users = [use.node for use in value.uses()]
                _refuse(f"the constant '{value.name}' is float64", users[0] if users else None, _FLOAT32)
        for node in graph:
            for fault, hint in _faults(node):
                _refuse(fault, node, hint)


_FLOAT32 = "compute it in float32"
_NAME = "give the operator a name that ONNX does not have"
_KEYS = "compute the keys with weights of their own"
_MASK = "pass the lengths as a mask of attention"


def _faults(node: ir.Node) -> Iterator[tuple[str, str]]:
    if node.domain not in _STANDARD and onnx.defs.has(node.op_type):
        text = f"{node.domain}::{node.op_type} would be taken for ONNX's own {node.op_type}"
        yield text, _NAME
    lengths = node.inputs[_NONPAD_KV_SEQLEN] if len(node.inputs) > _NONPAD_KV_SEQLEN else None
    if is_op(node, "Attention") and lengths is not None:
        yield f"the lengths of keys '{lengths.name}' (nonpad_kv_seqlen) would be left out", _MASK
    if is_op(node, "Attention") and node.inputs[0] is node.inputs[1]:
        yield "the queries of attention are its keys, which ends the builder with a segmentation fault", _KEYS
    if _makes_float64(node):
        yield f"{node.op_type} computes in float64, which TensorRT turns into float32", _FLOAT32


def _makes_float64(node: ir.Node) -> bool:
    if any(value.dtype == ir.DataType.DOUBLE for value in node.outputs):
        return True
    own = [attribute for attribute in node.attributes.values() if not attribute.is_ref()]
    tensors = [attribute.as_tensor().dtype for attribute in own if attribute.type == ir.AttributeType.TENSOR]
    named = [node.attributes.get_int(name, 0) for name in _DTYPE_ATTRIBUTES if name in node.attributes]
    return ir.DataType.DOUBLE in (*tensors, *named)


def _refuse(fault: str, node: ir.Node | None, hint: str) -> None:
    where = None if node is None else describe(node)
    raise RefusedError(f"not for TensorRT-RTX: {fault}", slug="tensorrt-rtx", where=where, hint=hint)
