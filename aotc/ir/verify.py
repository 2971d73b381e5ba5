"""The verifier: what every graph must satisfy between passes.

The rules are those that make a graph in memory and its file form the same thing: values are found by identity
in memory and by name in a file.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from aotc.errors import InternalError
from aotc.ir.edit import defined_values
from aotc.ir.walk import graphs, subgraphs

_SHOWN = 3


def verify(model: ir.Model, *, after: str) -> None:
    """Check the structure of ``model``: names, definitions before uses, types, no loose ends.

    Args:
        model: The graph.
        after: The stage or pass that made it, for the message.

    Raises:
        InternalError: The graph is not valid; only a bug of a pass or of the importer gets here.
    """
    faults = list(faults_of(model))
    if faults:
        more = f" (and {len(faults) - _SHOWN} more)" if len(faults) > _SHOWN else ""
        raise InternalError(f"invalid graph after {after}: {'; '.join(faults[:_SHOWN])}{more}")


def faults_of(model: ir.Model) -> Iterator[str]:
    """Yield what is wrong with ``model``, one sentence for each fault."""
    yield from _faults_of_interface(model.graph)
    yield from _faults_of_names(model.graph, frozenset())
    yield from _faults_of_order(model.graph, frozenset())
    yield from _faults_of_constants(model)
    yield from _faults_of_uses(model)
    domains = {node.domain for graph in graphs(model) for node in graph}
    for domain in sorted(domains - set(model.opset_imports)):
        yield f"domain '{domain}' has no opset import"


def _faults_of_interface(graph: ir.Graph) -> Iterator[str]:
    for kind, values in (("input", graph.inputs), ("output", graph.outputs)):
        names = [value.name for value in values]
        if len(set(names)) != len(names):
            yield f"two {kind}s share a name"
        for value in values:
            if value.dtype is None or value.shape is None:
                yield f"the {kind} '{value.name}' has no dtype or shape"
    for name in sorted({str(v.name) for v in graph.inputs} & {str(v.name) for v in graph.outputs}):
        yield f"'{name}' is both input and output"


def _faults_of_names(graph: ir.Graph, outer: frozenset[str]) -> Iterator[str]:
    """Yield names that stand for two values: in one graph, or in a graph and one around it."""
    own: set[str] = set()
    for value in defined_values(graph):
        name = str(value.name)
        if name in own:
            yield f"the value name '{name}' is defined twice"
        if name in outer:
            yield f"the value name '{name}' hides a value of an outer graph"
        own.add(name)
    for node in graph:
        for subgraph in subgraphs(node):
            yield from _faults_of_names(subgraph, outer | own)


def _faults_of_order(graph: ir.Graph, outer: frozenset[ir.Value]) -> Iterator[str]:
    own = {*graph.inputs, *graph.initializers.values()}
    for node in graph:
        for value in node.inputs:
            if value is not None and value not in own and value not in outer:
                yield f"{node.op_type} '{node.name}' reads '{value.name}' before it is defined"
        for subgraph in subgraphs(node):
            yield from _faults_of_order(subgraph, outer | own)
        own.update(node.outputs)
    for output in graph.outputs:
        if output not in own:
            yield f"the output '{output.name}' is not computed in its graph"


def _faults_of_constants(model: ir.Model) -> Iterator[str]:
    for graph in graphs(model):
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if tensor is None:
                yield f"the initialiser '{name}' has no value"
            elif value.dtype != tensor.dtype:
                yield f"the initialiser '{name}' is declared {value.dtype} and holds {tensor.dtype}"
            elif value.shape is not None and value.shape != tensor.shape:
                yield f"the initialiser '{name}' is declared {value.shape} and holds {tensor.shape}"


def _faults_of_uses(model: ir.Model) -> Iterator[str]:
    """Yield values that a removed node still counts as using: they would never become dead."""
    found = graphs(model)
    nodes = {node for graph in found for node in graph}
    for graph in found:
        for value in defined_values(graph):
            if any(use.node not in nodes for use in value.uses()):
                yield f"'{value.name}' is used by a node that is in no graph"
