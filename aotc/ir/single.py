"""A model of one node: what the oracle runs, and what shape inference looks at, to evaluate the node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
import onnx_ir as ir

_INLINE_BYTES = 4096


def isolate(
    node: ir.Node, tensors: Sequence[ir.TensorProtocol | None], opset_imports: Mapping[str, int]
) -> ir.Model:
    """Return a model of ``node`` alone with the inputs ``input_0``, ``input_1`` ... and the node's outputs.

    Args:
        node: The node; it stays where it is. It must have no subgraphs.
        tensors: One for each input of the node, None where an optional input is absent. They give the types
            and stay with the inputs as ``const_value``.
        opset_imports: Those of the model; a subgraph has none of its own.
    """
    values = [None if tensor is None else _input(i, tensor) for i, tensor in enumerate(tensors)]
    outputs = [
        ir.Value(name=f"output_{i}" if o.name else "", type=o.type) for i, o in enumerate(node.outputs)
    ]
    copy = ir.Node(
        node.domain, node.op_type, values, node.attributes.values(), outputs=outputs, overload=node.overload
    )
    graph = ir.Graph(
        [value for value in values if value is not None],
        [output for output in outputs if output.name],
        nodes=[copy],
        opset_imports=dict(opset_imports),
        name="node",
    )
    return ir.Model(graph, ir_version=10)


def result_bytes(
    node: ir.Node, tensors: Sequence[ir.TensorProtocol | None], opset_imports: Mapping[str, int]
) -> int | None:
    """Return how many bytes the results of ``node`` on ``tensors`` will take, without computing them.

    Returns None if the shapes follow only from the values, as for NonZero, or are not known to ONNX.
    """
    known = [_bytes_of(output.dtype, output.shape) for output in node.outputs if output.name]
    if all(size is not None for size in known):
        return sum(size for size in known if size is not None)
    model = isolate(node, tensors, opset_imports)
    for value in model.graph.inputs:
        if value.const_value is not None and value.const_value.nbytes <= _INLINE_BYTES:
            model.graph.initializers.add(value)
    try:
        inferred = onnx.shape_inference.infer_shapes(ir.to_proto(model), data_prop=True)
    except onnx.shape_inference.InferenceError:
        return None
    outputs = ir.from_proto(inferred).graph.outputs
    sizes = [_bytes_of(output.dtype, output.shape) for output in outputs]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _input(index: int, tensor: ir.TensorProtocol) -> ir.Value:
    name = f"input_{index}"
    return ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
    )


def _bytes_of(dtype: ir.DataType | None, shape: ir.Shape | None) -> int | None:
    if dtype is None or dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
        return None
    if shape is None or not shape.is_static():
        return None
    return math.ceil(math.prod(shape.numpy()) * dtype.itemsize)
