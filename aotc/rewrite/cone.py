"""Cones: the nodes between one value and the value that it is computed from, as a function that can be run.

A raising pass looks at what a cone computes, not at how it is spelled: it runs the cone on chosen inputs and
compares the results with those of an operator.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.ir.constants import constant
from aotc.ir.edit import discard_dead_initializers, is_dead, remove, take_over
from aotc.ir.prefix import FLOATS
from aotc.ir.scopes import inherit
from aotc.oracle import Oracle
from aotc.rewrite.regions import attribute_key

Array = np.ndarray[Any, Any]
MOST_NODES = 30
SOURCE, RESULT = "x", "y"
"""Names of the input and the output of a cone's model; its parameters are ``p0``, ``p1`` ..."""


@dataclasses.dataclass(frozen=True, eq=False)
class Cone:
    """What computes ``value`` from ``source`` and ``parameters``: ``nodes``, in the order of the graph.

    Parameters are what ``cones`` was told to take for such: weights, constant or not. All other constants
    belong to the nodes.
    """

    value: ir.Value
    source: ir.Value
    parameters: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...]

    @property
    def end(self) -> ir.Node:
        """Return the node that gives ``value``."""
        return self.nodes[-1]

    def key(self) -> tuple[object, ...]:
        """Return what cones have in common that compute the same in the same way, wherever they are."""
        numbers = {value: f"p{index}" for index, value in enumerate(self.parameters)} | {self.source: SOURCE}
        texts: list[object] = [self.source.dtype]
        for index, node in enumerate(self.nodes):
            attributes = [attribute_key(attribute) for _, attribute in sorted(node.attributes.items())]
            read = [numbers.get(v) or _content(v) if v is not None else None for v in node.inputs]
            texts.append((node.op_type, *attributes, *read))
            numbers |= {value: f"n{index}.{place}" for place, value in enumerate(node.outputs)}
        return tuple(texts)

    def constants(self) -> list[Array]:
        """Return the constants of the nodes."""
        read = (value for node in self.nodes for value in node.inputs if value not in self.parameters)
        return [tensor.numpy() for value in read if (tensor := constant(value)) is not None]

    def model(self, opset_imports: Mapping[str, int], *, wide: bool = False) -> ir.Model:
        """Return the cone as a model of its own; in float64 throughout if it is to be ``wide``."""
        inputs = {self.source: SOURCE} | {value: f"p{n}" for n, value in enumerate(self.parameters)}
        known = {value: ir.Value(name=name, type=_type(value, wide)) for value, name in inputs.items()}
        starts = list(known.values())
        held: list[ir.Value] = []
        nodes: list[ir.Node] = []
        for node in self.nodes:
            for value in node.inputs:
                if value is not None and value not in known:
                    known[value] = _copy(value, f"c{len(held)}", wide)
                    held.append(known[value])
            made = [
                ir.Value(name=f"n{len(nodes)}.{place}", type=_type(value, wide))
                for place, value in enumerate(node.outputs)
            ]
            read = [known[value] if value is not None else None for value in node.inputs]
            attributes = [_attribute(attribute, wide) for attribute in node.attributes.values()]
            nodes.append(ir.Node(node.domain, node.op_type, read, attributes, outputs=made))
            known.update(zip(node.outputs, made, strict=True))
        known[self.value].name = RESULT
        graph = ir.Graph(
            starts,
            [known[self.value]],
            nodes=nodes,
            initializers=held,
            opset_imports=dict(opset_imports),
            name="cone",
        )
        return ir.Model(graph, ir_version=10)

    def used_elsewhere(self) -> str | None:
        """Return why nothing is saved by computing ``value`` in another way; None if something is."""
        for value in (value for node in self.nodes[:-1] for value in node.outputs):
            if value.is_graph_output():
                return f"its inner value '{value.name}' is an output of the graph, and has to be computed"
            if any(use.node not in self.nodes for use in value.uses()):
                return f"its inner value '{value.name}' is used elsewhere as well, and has to be computed"
        return None

    def replace_by(self, node: ir.Node) -> None:
        """Put ``node``, whose one output is what ``value`` was, in the place of the cone."""
        end, read = self.end, [value for each in self.nodes for value in each.inputs]
        assert end.graph is not None
        inherit(node, reversed(self.nodes))
        node.name = end.name
        end.graph.insert_before(end, [node])
        take_over(node.outputs[0], self.value)
        for each in reversed(self.nodes):
            if all(is_dead(value) for value in each.outputs):
                remove(each)
        discard_dead_initializers(read)


def cones(
    end: ir.Node,
    order: Mapping[ir.Node, int],
    allowed: Collection[str],
    is_parameter: Callable[[ir.Value], bool] = lambda _: False,
    stops_at: Callable[[ir.Value], bool] = lambda _: False,
) -> list[Cone]:
    """Return the cones of ``end`` over one value, from the smallest to the largest.

    The walk always goes on at the last node in the order of the graph, so what is left to look at never
    depends on what a step adds, and a value that alone is left is one that every path leads through.

    Args:
        end: Where they end.
        order: The places of the nodes of its graph.
        allowed: Standard operators that may lie inside.
        is_parameter: Told of values that cannot be looked behind, and of constants: which are parameters.
        stops_at: Told of values: which are not to be looked behind.
    """
    found: list[Cone] = []
    nodes: list[ir.Node] = []
    parameters: dict[ir.Value, None] = {}
    pending = [(-order[end], end)]
    queued, source = {end}, None
    while pending and len(nodes) < MOST_NODES:
        _, node = heapq.heappop(pending)
        nodes.append(node)
        for value in node.inputs:
            before = value.producer() if value is not None else None
            if value is None or before in queued:
                continue
            if before is not None and _is_open(before, order, allowed) and not stops_at(value):
                heapq.heappush(pending, (-order[before], before))
                queued.add(before)
            elif constant(value) is not None or is_parameter(value):
                parameters.update({value: None} if is_parameter(value) else {})
            elif source not in (None, value):
                return found
            else:
                source = value
        starts = pending[0][1].outputs if source is None and pending else [source]
        if len(pending) + (source is not None) == 1 and len(starts) == 1 and starts[0] is not None:
            found.append(Cone(end.outputs[0], starts[0], tuple(parameters), tuple(reversed(nodes))))
    return [cone for cone in found if not any(value.producer() in cone.nodes for value in cone.parameters)]


def evaluate(
    cone: Cone, oracle: Oracle, opset_imports: Mapping[str, int], feeds: Mapping[str, Array]
) -> tuple[Array, Array]:
    """Return what ``cone`` gives for ``feeds``, in its own types and in float64.

    Raises:
        RefusedError: The oracle does not run it in one of these ways.
    """
    wide = {name: array.astype(np.float64) for name, array in feeds.items()}
    with np.errstate(all="ignore"):
        own = oracle.run(cone.model(opset_imports), feeds)[RESULT]
        return own, oracle.run(cone.model(opset_imports, wide=True), wide)[RESULT]


def run_operator(
    node: ir.Node, oracle: Oracle, opset_imports: Mapping[str, int], arrays: Iterable[Array]
) -> Array:
    """Return what the first output of ``node`` is for the inputs ``arrays``.

    Raises:
        RefusedError: The oracle does not run it.
    """
    node.outputs[0].name = RESULT
    with np.errstate(all="ignore"):
        result = oracle.evaluate(node, [ir.tensor(array) for array in arrays], opset_imports)[0]
    if result is None:
        raise RefusedError(f"{node.op_type} has no first output", slug="oracle")
    return result


def _is_open(node: ir.Node, order: Mapping[ir.Node, int], allowed: Collection[str]) -> bool:
    """Return whether a walk goes on behind ``node``."""
    return node in order and node.domain == "" and node.op_type in allowed


def _content(value: ir.Value) -> object:
    tensor = constant(value)
    return tensor and (str(tensor.dtype), tuple(tensor.shape.numpy()), tensor.tobytes())


def _type(value: ir.Value, wide: bool) -> ir.TypeProtocol | None:
    return ir.TensorType(ir.DataType.DOUBLE) if wide and value.dtype in FLOATS else value.type


def _copy(value: ir.Value, name: str, wide: bool) -> ir.Value:
    tensor = constant(value)
    assert tensor is not None
    array = tensor.numpy()
    if wide and tensor.dtype in FLOATS:
        array = array.astype(np.float64)
    copy = ir.tensor(array, name=name)
    return ir.Value(name=name, type=ir.TensorType(copy.dtype), shape=ir.Shape(array.shape), const_value=copy)


def _attribute(attribute: ir.Attr, wide: bool) -> ir.Attr:
    if wide and attribute.name == "to" and ir.DataType(attribute.as_int()) in FLOATS:
        return ir.AttrInt64("to", ir.DataType.DOUBLE)
    return attribute
