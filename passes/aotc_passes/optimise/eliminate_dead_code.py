"""Remove what no output depends on."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir
from typing_extensions import override

from aotc.ir.edit import discard_dead_initializers, is_dead, remove, take_over
from aotc.ir.scopes import describe, place
from aotc.ir.walk import graphs, is_op, subgraphs
from aotc.rewrite import Context, Pass, PassResult, Refusal


@dataclasses.dataclass(frozen=True)
class EliminateDeadCode(Pass):
    """Remove nodes and initialisers that nobody uses, and Identity nodes.

    Rewrites:
        A node none of whose outputs is used, at any depth, is removed, with what only it used. An Identity
        gives way to its input; if its output is a graph output, the input takes that output's name. Unused
        initialisers go, in the main graph and in subgraphs.

    Requires:
        A verified graph. Sequence, optional and control-flow values are handled like tensors.

    Refuses when:
        An Identity is what keeps a graph output apart from a graph input, an initialiser, another graph
        output, or a value of an outer graph. Unused outputs of a node that has a used one stay; so does an
        initialiser that is also a graph input, because callers may set it.

    Numerics:
        Exact: no value that remains is computed differently.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place; one sweep forwards for Identity, one backwards for dead nodes."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        found = graphs(model)
        for graph in found:
            for node in graph:
                if is_op(node, "Identity"):
                    _eliminate_identity(node, changes, refusals)
        _eliminate_dead_nodes(model.graph, changes)
        for graph in graphs(model):
            gone = discard_dead_initializers(graph.initializers.values())
            changes.extend(f"initialiser '{name}' removed: unused" for name in gone)
        return PassResult(tuple(changes), tuple(refusals))


def _eliminate_identity(node: ir.Node, changes: list[str], refusals: list[Refusal]) -> None:
    source, output = node.inputs[0], node.outputs[0]
    if source is None or is_dead(output):
        return
    if output.is_graph_output():
        if reason := _why_kept(node, source, output):
            refusals.append(Refusal(reason, describe(node)))
            return
        take_over(source, output)
    else:
        output.replace_all_uses_with(source)
    changes.append(f"{place(node)}: Identity -> nothing")
    remove(node)


def _why_kept(node: ir.Node, source: ir.Value, output: ir.Value) -> str | None:
    name = f"the output '{output.name}' would become"
    if source.is_graph_input():
        return f"{name} the input '{source.name}' itself"
    if source.is_initializer():
        return f"{name} the initialiser '{source.name}' itself"
    if source.is_graph_output():
        return f"{name} the same value as the output '{source.name}'"
    if source.graph is not node.graph:
        return f"{name} the value '{source.name}' of an outer graph"
    return None


def _eliminate_dead_nodes(graph: ir.Graph, changes: list[str]) -> None:
    """Go backwards, so that what a removed node used is seen after it."""
    for node in reversed(graph):
        if all(is_dead(output) for output in node.outputs):
            changes.append(f"{place(node)}: {node.op_type} removed: unused")
            remove(node)
            continue
        for subgraph in subgraphs(node):
            _eliminate_dead_nodes(subgraph, changes)
