"""Python numbers of the model's code that the exporter rounded on their way into the graph.

The exporter writes a number as a float32 constant and casts that to the dtype of the tensor it meets:
``1.702 * x`` in float64 becomes ``1.7020000219 * x``, and ``ids.clamp(max=2**40 + 1)`` loses the 1. See
https://github.com/microsoft/onnxruntime/issues/32421 for what float64 users meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import constant_of_node
from aotc.ir.walk import graphs

_CASTS = ("Cast", "CastLike")
_WIDE = {
    "torch.float64": ir.DataType.DOUBLE,
    "torch.int64": ir.DataType.INT64,
    "torch.int32": ir.DataType.INT32,
}


def restore_scalars(model: ir.Model) -> None:
    """Replace each cast of a rounded constant by the number that the operator was called with.

    Must run on the graph as the exporter returns it: later the casts are folded, and the nodes no longer say
    which call they came from.
    """
    for graph in (*graphs(model), *model.functions.values()):
        for node in list(graph):
            if node.op_type in _CASTS and not node.domain:
                _restore(node)


def _restore(node: ir.Node) -> None:
    target, rounded = _target(node), _rounded(node.inputs[0])
    if target is None or rounded is None or node.graph is None:
        return
    wanted = {n for n in _numbers(node.meta.get("node")) if float(np.float32(n)) == rounded != n}
    if target.is_integer():
        wanted = {n for n in wanted if isinstance(n, int)}
    if len(wanted) != 1:
        return
    exact = ir.node("Constant", [], {"value": ir.tensor(wanted.pop(), dtype=target)}, name=node.name)
    exact.metadata_props.update(node.metadata_props)
    node.graph.insert_before(node, exact)
    old, new = node.outputs[0], exact.outputs[0]
    new.type = ir.TensorType(target)
    new.shape = ir.Shape([])
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    new.name, old.name = old.name, None
    node.graph.remove(node, safe=True)


def _target(node: ir.Node) -> ir.DataType | None:
    """Return the dtype that ``node`` casts to, if float32 cannot hold all of its values."""
    if node.op_type == "Cast":
        target = ir.DataType(node.attributes.get_int("to", 0))
    else:
        like = node.inputs[1]
        found = (like.dtype if like is not None else None) or _result_dtype(node)
        if found is None:
            return None
        target = found
    return target if target in _WIDE.values() else None


def _result_dtype(node: ir.Node) -> ir.DataType | None:
    """Return the dtype of what the operator behind ``node`` returns: its inner values have none yet."""
    call = node.meta.get("node")
    value = call.meta.get("val") if call is not None else None
    return _WIDE.get(str(getattr(value, "dtype", None)))


def _rounded(value: ir.Value | None) -> float | None:
    """Return the number that a scalar float32 constant holds."""
    producer = value.producer() if value is not None else None
    tensor = constant_of_node(producer) if producer is not None and producer.op_type == "Constant" else None
    if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size != 1 or tensor.shape.rank() != 0:
        return None
    return float(tensor.numpy().item())


def _numbers(call: Any) -> Iterator[int | float]:
    """Yield the numbers among the arguments of an operator's call, defaults included."""
    if call is None:
        return
    schema = getattr(call.target, "_schema", None)
    defaults = [a.default_value for a in schema.arguments if a.has_default_value()] if schema else []
    stack = [*call.args, *call.kwargs.values(), *defaults]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield item
