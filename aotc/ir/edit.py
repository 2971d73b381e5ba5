"""Edits that passes share; each leaves the graph valid.

``onnx_ir`` keeps who uses a value up to date only for the inputs of the node it removes, not for what the
node's subgraphs capture, and leaves names to the caller: these helpers do both.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from aotc.ir.walk import graphs, subgraphs


class Names:
    """The value names of a model, for naming new values."""

    def __init__(self, model: ir.Model) -> None:
        self._taken: set[str | None] = set()
        for graph in graphs(model):
            self._taken.update(value.name for value in defined_values(graph))

    def fresh(self, stem: str) -> str:
        """Return ``stem``, or ``stem_1``, ``stem_2`` ... if it is taken; the name is then taken."""
        name, count = stem, 0
        while name in self._taken:
            count += 1
            name = f"{stem}_{count}"
        self._taken.add(name)
        return name


def defined_values(graph: ir.Graph) -> list[ir.Value]:
    """Return the values that ``graph`` itself defines, each once: inputs, initialisers, outputs of nodes."""
    values = [*graph.inputs, *graph.initializers.values(), *(v for node in graph for v in node.outputs)]
    return [value for value in dict.fromkeys(values) if value.name]


def take_over(new: ir.Value, old: ir.Value) -> None:
    """Make ``new`` stand for ``old`` everywhere: uses, outputs of the graph, name, type, shape, metadata."""
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    new.name, old.name = old.name, None
    new.type = old.type if old.type is not None else new.type
    new.shape = old.shape if old.shape is not None else new.shape
    new.metadata_props.update(old.metadata_props)


def remove(node: ir.Node) -> None:
    """Remove ``node``, whose outputs nobody uses, and all it holds on to: inputs, and captures inside."""
    for graph in subgraphs(node):
        graph.outputs.clear()
        for inner in reversed(graph):
            remove(inner)
    if node.graph is not None:
        node.graph.remove(node, safe=True)


def is_dead(value: ir.Value) -> bool:
    """Return whether nobody uses ``value``: no node at any depth, and it is no graph's input or output."""
    return not (value.uses() or value.is_graph_output() or value.is_graph_input())


def discard_dead_initializers(values: Iterable[ir.Value | None]) -> list[str]:
    """Remove those of ``values`` that are initialisers and dead; return their names."""
    gone = []
    for value in dict.fromkeys(values):
        if value is not None and value.is_initializer() and is_dead(value) and value.graph is not None:
            gone.append(str(value.name))
            del value.graph.initializers[str(value.name)]
    return gone


def discard(node: ir.Node) -> None:
    """Remove ``node``, whose outputs nobody uses, and what only it used, back to the inputs."""
    pending = [node]
    while pending:
        current = pending.pop()
        if current.graph is None or any(not is_dead(output) for output in current.outputs):
            continue
        sources = [value for value in current.inputs if value is not None]
        remove(current)
        pending.extend(producer for value in sources if (producer := value.producer()) is not None)
        discard_dead_initializers(sources)
