"""What every kind of mutant is made of: a place in a graph, and edits that leave the graph well formed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.ir.edit import Names, take_over
from aotc.ir.walk import graphs

Array = np.ndarray[Any, Any]
FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


@dataclasses.dataclass(frozen=True)
class Subject:
    """A graph to be mutated in place, inputs that it accepts, and what draws elements of tensors."""

    model: ir.Model
    example: dict[str, Array]
    rng: np.random.Generator

    @property
    def nodes(self) -> list[ir.Node]:
        """All nodes, those of subgraphs too."""
        return [node for graph in graphs(self.model) for node in graph]

    @property
    def constants(self) -> list[ir.Value]:
        """All initialisers."""
        return [value for graph in graphs(self.model) for value in graph.initializers.values()]

    def of(self, *op_types: str) -> list[ir.Node]:
        """Return the nodes of these operators."""
        return [node for node in self.nodes if node.domain == "" and node.op_type in op_types]

    def constant(self, array: Array) -> ir.Value:
        """Return a new initialiser."""
        name = Names(self.model).fresh("mutant")
        value = ir.Value(name=name, const_value=ir.tensor(np.asarray(array), name=name))
        value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(np.shape(array))
        self.model.graph.register_initializer(value)
        return value

    def insert(self, value: ir.Value, make: Callable[[ir.Value], Sequence[ir.Node]]) -> None:
        """Let every user of ``value`` read the last of the nodes that ``make`` returns instead."""
        name, names = value.name, Names(self.model)
        nodes = make(value)
        new = nodes[-1].outputs[0]
        take_over(new, value)
        for node in nodes:
            for index, each in enumerate(node.inputs):
                if each is new:
                    node.replace_input_with(index, value)
        value.name = names.fresh(f"{name}_before")
        producer = value.producer()
        if producer is None:  # an input of the graph keeps its name
            value.name, new.name = name, names.fresh(f"{name}_after")
            self.model.graph.insert_before(self.model.graph[0], nodes)
        else:
            assert producer.graph is not None
            producer.graph.insert_after(producer, nodes)


Site = tuple[str, Callable[[], None]]
"""Where, and what makes the mutant."""
Kind = Callable[[Subject], Iterator[Site]]
"""Yields every place of a graph where a mutant of one kind can be made; they are made on that very graph."""


def title(node: ir.Node) -> str:
    """Name a node by its operator and its result."""
    return f"{node.op_type} {node.outputs[0].name}"


def array_of(value: ir.Value | None) -> Array | None:
    """Return a copy of what an initialiser holds; None for anything else."""
    if value is None or value.const_value is None or not value.is_initializer():
        return None
    return np.array(value.const_value.numpy())


def set_array(value: ir.Value, array: Array) -> None:
    """Give an initialiser other numbers of its own type and shape."""
    assert value.const_value is not None
    dtype = value.const_value.dtype
    value.const_value = ir.tensor(np.ascontiguousarray(array, dtype.numpy()), dtype=dtype, name=value.name)


def changed(value: ir.Value, change: Callable[[Array], Array]) -> Callable[[], None]:
    """Return the edit that changes the numbers of an initialiser."""

    def edit() -> None:
        array = array_of(value)
        assert array is not None
        set_array(value, change(array))

    return edit


def with_attribute(node: ir.Node, name: str, content: Any) -> Callable[[], None]:
    """Return the edit that sets an attribute."""

    def edit() -> None:
        node.attributes[name] = ir.convenience.convert_attribute(name, content)

    return edit


def with_input(node: ir.Node, index: int, value: ir.Value | None) -> Callable[[], None]:
    """Return the edit that lets a node read ``value``."""
    return lambda: node.replace_input_with(index, value)


def swapped(node: ir.Node, first: int, second: int) -> Callable[[], None]:
    """Return the edit that swaps two inputs of a node."""

    def edit() -> None:
        one, two = node.inputs[first], node.inputs[second]
        node.replace_input_with(first, two)
        node.replace_input_with(second, one)

    return edit


def bypassed(node: ir.Node, through: int = 0) -> Callable[[], None]:
    """Return the edit that takes one of the node's inputs as its result."""

    def edit() -> None:
        identity = ir.node("Identity", [node.inputs[through]])
        assert node.graph is not None
        node.graph.insert_before(node, identity)
        take_over(identity.outputs[0], node.outputs[0])
        node.outputs[0].name = f"{identity.outputs[0].name}_unused"

    return edit


def of_type(value: ir.Value | None, types: frozenset[ir.DataType] = FLOATS) -> bool:
    """Return whether ``value`` is known to be of one of the types."""
    return value is not None and value.dtype in types
