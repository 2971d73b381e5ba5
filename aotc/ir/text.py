"""The text form of a model: ONNX text, deterministic, with large tensors left out.

Node metadata is not part of ONNX text; ``scopes`` reads it. A tensor that is left out is written as external
data at the place ``omitted``, so that the text still parses; reading such a tensor's values fails.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from aotc.ir.walk import graphs

_MAX_ELEMENTS = 64
_OMITTED = "omitted"


def to_text(model: ir.Model, *, max_elements: int = _MAX_ELEMENTS) -> str:
    """Return the ONNX text of ``model``, with the values of tensors of up to ``max_elements`` elements.

    Equal graphs have equal text, whatever the order of their initialisers and wherever their tensors are
    stored. No larger tensor is read, copied or serialised.
    """
    copy = model.clone()
    for graph in graphs(copy):
        values = sorted(graph.initializers.values(), key=lambda value: str(value.name))
        graph.initializers.clear()
        for value in values:
            value.const_value = _shown(value.const_value, max_elements)
            graph.initializers.add(value)
        for node in graph:
            _show_attributes(node, max_elements)
    proto = ir.to_proto(copy)
    _drop_repeated_types(proto.graph)
    return onnx.printer.to_text(proto) + "\n"


def from_text(text: str) -> ir.Model:
    """Return the model that ``text`` describes; tensors that were left out can't be read."""
    return ir.from_onnx_text(text)


def _shown(tensor: ir.TensorProtocol | None, max_elements: int) -> ir.TensorProtocol | None:
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return tensor
    if isinstance(tensor, ir.ExternalTensor) and not tensor.offset and not tensor.length:
        return tensor  # a place holder of a text: kept as it was written
    if tensor.size <= max_elements:
        return ir.Tensor(np.array(tensor.numpy()), dtype=tensor.dtype, name=tensor.name)
    return ir.ExternalTensor(
        _OMITTED, None, None, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=tensor.name or ""
    )


def _show_attributes(node: ir.Node, max_elements: int) -> None:
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
            shown = _shown(attribute.as_tensor(), max_elements)
            node.attributes[name] = ir.Attr(name, ir.AttributeType.TENSOR, shown)


def _drop_repeated_types(graph: onnx.GraphProto) -> None:
    """Remove the value infos of initialisers: their types stand beside their values already."""
    initialised = {tensor.name for tensor in graph.initializer}
    kept = [info for info in graph.value_info if info.name not in initialised]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _drop_repeated_types(attribute.g)
            for subgraph in attribute.graphs:
                _drop_repeated_types(subgraph)
