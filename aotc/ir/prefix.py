"""Cuts through a graph, and the part of it that ends at one: what a search for a wrong value runs.

A cut is a place between two nodes. What crosses it determines everything behind it: where all values that
cross one cut are right and one that crosses a later cut is wrong, the fault lies between the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from aotc.ir.walk import subgraphs

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


@dataclasses.dataclass(frozen=True)
class Cut:
    """The place behind the node at ``position``: ``values`` cross it, in the order of the graph."""

    position: int
    values: tuple[str, ...]


def cuts(graph: ir.Graph, known: Collection[str]) -> list[Cut]:
    """Return the cuts at which every floating value has a name in ``known``, front to back.

    The last is behind the last node: what crosses it are the graph's outputs. Inputs, weights and values that
    are not in ``known`` (integers that are made of shapes) are left out of ``values``; a cut where nothing
    new crosses is left out whole.

    Args:
        graph: In topological order.
        known: Names of values that can be compared.
    """
    last = _last_uses(graph)
    found: list[Cut] = []
    alive: dict[ir.Value, None] = {}
    for position, node in enumerate(graph):
        alive.update(dict.fromkeys(output for output in node.outputs if output.name))
        for value in [value for value in alive if last.get(value, -1) <= position]:
            del alive[value]
        names = tuple(str(value.name) for value in alive if value.name in known)
        complete = all(value.name in known for value in alive if value.dtype in FLOATS or not value.dtype)
        if complete and names and (not found or names != found[-1].values):
            found.append(Cut(position, names))
    return found


def _last_uses(graph: ir.Graph) -> dict[ir.Value, int]:
    """Return where each value is used last, by a node or inside of it; outputs are used behind the end."""
    last: dict[ir.Value, int] = {}
    for position, node in enumerate(graph):
        for value in _reads(node):
            last[value] = position
    return last | dict.fromkeys(graph.outputs, len(graph))


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs(node):
        for inner in graph:
            yield from _reads(inner)
        yield from graph.outputs


def part(model: ir.Model, inputs: Sequence[str], outputs: Sequence[str]) -> ir.Model:
    """Return the part of ``model`` that computes ``outputs`` from ``inputs``, as a model of its own.

    Args:
        model: It stays as it is; the weights are shared.
        inputs: Values to start from, beside the model's inputs; what is not needed is no input of the part.
        outputs: Values to end at.
    """
    given = [value for value in model.graph.inputs if not value.is_initializer()]
    known = ir.convenience.create_value_mapping(model.graph, include_subgraphs=False)
    starts = list(dict.fromkeys([*(known[name] for name in inputs), *given]))
    graph = ir.convenience.extract(model.graph, starts, [known[name] for name in outputs])
    for value in [value for value in graph.inputs if not value.uses() and not value.is_graph_output()]:
        graph.inputs.remove(value)
    return ir.Model(graph, ir_version=model.ir_version)


def reads_of(model: ir.Model, outputs: Sequence[str], stops: Collection[str]) -> list[str]:
    """Return the ones of ``stops`` at which a walk from ``outputs`` towards the inputs ends."""
    known = ir.convenience.create_value_mapping(model.graph, include_subgraphs=False)
    pending, seen, found = [known[name] for name in outputs], set[ir.Value](), dict[str, None]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.name in stops:
            found[str(value.name)] = None
        elif (node := value.producer()) is not None:
            pending.extend(_reads(node))
    return list(found)


def needed(model: ir.Model, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ones of ``feeds`` that are inputs of ``model``."""
    return {str(value.name): feeds[str(value.name)] for value in model.graph.inputs}
