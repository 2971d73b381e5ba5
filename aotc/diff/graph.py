"""Operators by module, and how they are connected; needs onnx."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir

from aotc.diff.document import Difference, OperatorDifference
from aotc.diff.texts import differences
from aotc.diff.weights import content_of
from aotc.ir.operators import Counts, count_by_module
from aotc.ir.scopes import module_path
from aotc.ir.walk import graphs

_SUBGRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def read_graph(content: memoryview) -> ir.Model:
    """Return the model in the bytes of an engine file; its external tensors are not read."""
    model: ir.Model = ir.from_proto(onnx.ModelProto.FromString(bytes(content)))
    return model


def compare_operators(a: ir.Model, b: ir.Model) -> tuple[OperatorDifference, ...]:
    """Return the operators of modules that do not occur equally often."""
    before, after = _flat(count_by_module(a)), _flat(count_by_module(b))
    return tuple(
        OperatorDifference(module=key[0], operator=key[1], a=before.get(key, 0), b=after.get(key, 0))
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    )


def _flat(counts: Counts) -> dict[tuple[str, str], int]:
    return {(module, kind): count for module, kinds in counts.items() for kind, count in kinds.items()}


def rewired(a: ir.Model, b: ir.Model) -> tuple[str, ...]:
    """Return the modules whose nodes differ in order, attributes or inputs, given equally many of each."""
    pairs = itertools.zip_longest(_nodes(a), _nodes(b))
    return tuple(dict.fromkeys((mine or theirs)[0] for mine, theirs in pairs if mine != theirs))


def _nodes(model: ir.Model) -> list[tuple[Any, ...]]:
    """Return each node as module, operator, attributes and inputs, without the names of computed values."""
    numbers: dict[ir.Value | None, str] = {None: ""}
    found: list[tuple[Any, ...]] = []
    for graph in graphs(model):
        for node in graph:
            for output in node.outputs:
                numbers[output] = f"value {len(numbers)}"
    for graph in graphs(model):
        for node in graph:
            inputs = tuple(_identity(value, numbers) for value in node.inputs)
            kind = (node.domain, node.op_type, node.overload, len(node.outputs))
            found.append((module_path(node), kind, tuple(sorted(_attributes(node))), inputs))
        found.append(("", "outputs", tuple(_identity(value, numbers) for value in graph.outputs)))
    return found


def _identity(value: ir.Value | None, numbers: dict[ir.Value | None, str]) -> str:
    """Return what a value is: the how many-th result, or an input or a weight of that name."""
    return numbers[value] if value is None or value in numbers else f"name {value.name}"


def _attributes(node: ir.Node) -> Iterator[tuple[str, str]]:
    """Yield the attributes as texts; subgraphs are walked by themselves."""
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            yield name, f"reference to {attribute.ref_attr_name}"
        elif attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            digest = hashlib.sha256(content_of(tensor)).hexdigest()
            yield name, f"{tensor.dtype} {tensor.shape} {digest}"
        elif attribute.type not in _SUBGRAPHS:
            yield name, f"{attribute.type} {attribute.value!r}"


def compare_precision(a: ir.Model, b: ir.Model) -> tuple[Difference, ...]:
    """Return the operators of both graphs whose inputs are of other element types."""
    before, after = _input_types(a), _input_types(b)
    return differences(
        {name: types for name, types in before.items() if name in after},
        {name: types for name, types in after.items() if name in before},
    )


def _input_types(model: ir.Model) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for node in (node for graph in graphs(model) for node in graph):
        types = {str(v.dtype).lower() for v in node.inputs if v is not None and v.dtype is not None}
        found.setdefault(f"inputs of {node.op_type}", set()).update(types)
    return {name: ", ".join(sorted(types)) for name, types in found.items()}
