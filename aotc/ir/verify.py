"""The verifier: what every graph must satisfy between passes."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from aotc.errors import InternalError


def verify(model: ir.Model, *, after: str) -> None:
    """Check the structure of ``model``: names, definitions before uses, types of inputs and outputs.

    Args:
        model: The graph.
        after: The stage or pass that made it, for the message.

    Raises:
        InternalError: The graph is not valid; only a bug of a pass or of the importer gets here.
    """
    faults = [
        *_faults_of_interface(model.graph),
        *_faults_of_graph(model.graph, set()),
        *(f"domain '{d}' has no opset import" for d in sorted(_missing_imports(model))),
    ]
    if faults:
        raise InternalError(f"invalid graph after {after}: {'; '.join(faults[:3])}")


def _faults_of_interface(graph: ir.Graph) -> Iterable[str]:
    for kind, values in (("input", graph.inputs), ("output", graph.outputs)):
        names = [value.name for value in values]
        if len(set(names)) != len(names):
            yield f"two {kind}s share a name"
        for value in values:
            if value.dtype is None or value.shape is None:
                yield f"the {kind} '{value.name}' has no dtype or shape"
    if overlap := {v.name for v in graph.inputs} & {v.name for v in graph.outputs}:
        yield f"'{min(map(str, overlap))}' is both input and output"


def _faults_of_graph(graph: ir.Graph, outer: set[ir.Value]) -> Iterable[str]:
    known = outer | set(graph.inputs) | set(graph.initializers.values())
    names: set[str | None] = set()
    for value in (*graph.inputs, *graph.initializers.values()):
        names.add(value.name)
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in known:
                yield f"{node.op_type} '{node.name}' reads '{value.name}' before it is defined"
        for subgraph in _subgraphs(node):
            yield from _faults_of_graph(subgraph, known)
        for output in node.outputs:
            if output.name in names and output.name:
                yield f"the value name '{output.name}' is defined twice"
            names.add(output.name)
            known.add(output)
    for output in graph.outputs:
        if output not in known:
            yield f"the output '{output.name}' is not computed"


def _subgraphs(node: ir.Node) -> Iterable[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _missing_imports(model: ir.Model) -> set[str]:
    return {node.domain for node in model.graph.all_nodes()} - set(model.opset_imports)
