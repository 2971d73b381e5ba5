"""Walking a model: graphs, subgraphs and nodes, outer before inner."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

_RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs in the attributes of ``node``: branches and bodies."""
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def graphs(model: ir.Model) -> list[ir.Graph]:
    """Return the main graph and all subgraphs at any depth, each before the graphs inside it."""
    found = [model.graph]
    for graph in found:
        for node in graph:
            found.extend(subgraphs(node))
    return found


def is_op(node: ir.Node | None, *op_types: str) -> bool:
    """Return whether ``node`` is one of the standard ONNX operators ``op_types``."""
    return node is not None and node.domain == "" and node.op_type in op_types


def why_not_deterministic(node: ir.Node) -> str | None:
    """Return why two runs of ``node`` on equal inputs may differ, or None if they never do.

    Only the standard operators are known; a function or an operator of another domain is not trusted.
    """
    if node.domain not in ("", "ai.onnx.ml"):
        return f"the operators of domain '{node.domain}' are not known to be deterministic"
    if node.op_type in _RANDOM:
        return f"{node.op_type} is random"
    if any(True for _ in subgraphs(node)):
        return f"{node.op_type} has subgraphs, which are not compared"
    return None
