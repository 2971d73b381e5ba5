"""Give an attention mask its query axis at full length, which ONNX Runtime's kernel insists on."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import new_initializer
from aotc.ir.edit import Names
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal

_MASK = 3


@dataclasses.dataclass(frozen=True)
class ExpandAttentionMask(Pass):
    """Expand an attention mask that broadcasts over the queries.

    Rewrites:
        Attention(Q, K, V, mask), where the query axis of the mask is 1 or not known to be the length of Q:
        the mask goes through Expand to the length of Q. Batch and head axes are left to broadcast.

    Requires:
        Opset 23 or later, where Attention takes Q of rank 3 or 4.

    Refuses when:
        The rank of Q or of the mask is not known, or is not one that Attention takes.

    Numerics:
        Exact: ONNX defines the mask as broadcastable; the kernel's check is what differs.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place; masks that several nodes share are expanded once a query value."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        names = Names(model)
        for graph in graphs(model):
            expanded: dict[tuple[ir.Value, ir.Value], ir.Value] = {}
            for node in graph:
                if is_op(node, "Attention") and len(node.inputs) > _MASK and node.inputs[_MASK] is not None:
                    self._lower(node, expanded, names, changes, refusals)
        return PassResult(tuple(changes), tuple(refusals))

    def _lower(
        self,
        node: ir.Node,
        expanded: dict[tuple[ir.Value, ir.Value], ir.Value],
        names: Names,
        changes: list[str],
        refusals: list[Refusal],
    ) -> None:
        queries, mask = node.inputs[0], node.inputs[_MASK]
        assert queries is not None
        assert mask is not None
        if reason := _why_not(queries, mask):
            refusals.append(Refusal(reason, describe(node)))
        elif _query_dim(mask) != _length(queries):
            key = (queries, mask)
            if key not in expanded:
                expanded[key] = _expand(node, queries, mask, names)
            node.replace_input_with(_MASK, expanded[key])
            changes.append(f"{place(node)}: the mask is expanded over the queries")


def _why_not(queries: ir.Value, mask: ir.Value) -> str | None:
    if queries.shape is None or queries.shape.rank() not in (3, 4):
        return f"the rank of the queries '{queries.name}' is not known to be 3 or 4"
    if mask.shape is None or not 2 <= mask.shape.rank() <= 4:
        return f"the rank of the mask '{mask.name}' is not known to be 2 to 4"
    return None


def _length_axis(queries: ir.Value) -> int:
    """Return the axis of the tokens: (batch, tokens, hidden) or (batch, heads, tokens, head size)."""
    assert queries.shape is not None
    return queries.shape.rank() - 2


def _length(queries: ir.Value) -> Any:
    """Return the number of queries as an int or a label; unknown dims equal nothing."""
    assert queries.shape is not None
    return _known(queries.shape[_length_axis(queries)], queries)


def _query_dim(mask: ir.Value) -> Any:
    assert mask.shape is not None
    return _known(mask.shape[-2], mask)


def _known(dim: Any, owner: ir.Value) -> Any:
    size = dim if isinstance(dim, int) else dim.value
    return size if size is not None else owner


def _expand(node: ir.Node, queries: ir.Value, mask: ir.Value, names: Names) -> ir.Value:
    """Insert Expand(mask, (1, ..., queries, 1)) before ``node`` and return its result."""
    assert mask.shape is not None
    assert node.graph is not None
    axis = _length_axis(queries)
    ones = _ones(node.graph, mask.shape.rank() - 2, names)
    one = _ones(node.graph, 1, names)
    length = ir.node("Shape", [queries], attributes={"start": axis, "end": axis + 1})
    parts = [value for value in (ones, length.outputs[0], one) if value is not None]
    target = ir.node("Concat", parts, attributes={"axis": 0})
    expand = ir.node("Expand", [mask, target.outputs[0]])
    for new, stem, rank in ((length, "length", 1), (target, "target", mask.shape.rank()), (expand, "", 0)):
        value = new.outputs[0]
        value.name = names.fresh(f"{mask.name}_{stem}" if stem else f"{mask.name}_expanded")
        new.name = f"node_{value.name}"
        if stem:
            value.type = ir.TensorType(ir.DataType.INT64)
            value.shape = ir.Shape([1 if stem == "length" else rank])
        inherit(new, [node])
    expand.outputs[0].type = mask.type
    dims = list(mask.shape)
    dims[-2] = queries.shape[axis] if queries.shape is not None else dims[-2]
    expand.outputs[0].shape = ir.Shape(dims)
    node.graph.insert_before(node, [length, target, expand])
    return expand.outputs[0]


def _ones(graph: ir.Graph, count: int, names: Names) -> ir.Value | None:
    if count == 0:
        return None
    value = new_initializer(names.fresh(f"ones_{count}"), ir.Tensor(np.ones(count, np.int64)), [])
    graph.initializers.add(value)
    return value
