"""An ONNX graph in float64, run node by node: each weight is upcast when it is used."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
from onnx_ir import external_data

from aotc.errors import RefusedError
from aotc.ir.constants import constant_of_node
from aotc.ir.scopes import describe
from aotc.ir.walk import graphs, is_op
from aotc.oracle import Oracle
from aotc.parity.onnx_emulate import emulate

Array = np.ndarray[Any, Any]
Values = dict[ir.Value, Array]
_NARROW = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_BRANCHES = ("then_branch", "else_branch")
_AGREEMENT = 1e-3
"""A stand-in for a missing float64 kernel must be as near to the float32 kernel, of the largest value."""


class WideGraph:
    """Runs a graph with every narrow float in float64.

    ONNX Runtime runs the nodes that it has float64 kernels for. What stands in for the others (``emulate``)
    is another implementation, so each of its results is compared with ONNX Runtime's in float32: a fault
    there would else become a wide bound.

    Args:
        model: The graph, without functions. It is changed, all but its weights.
        threads: Threads of ONNX Runtime; 0 leaves the number to it.
    """

    def __init__(self, model: ir.Model, threads: int) -> None:
        self._model = model
        self._oracle = Oracle(threads, reference=False)
        self._taken: dict[ir.Node, set[str]] = {}
        for graph in graphs(self._model):
            for node in graph:
                _widen_attributes(node)
                for output in node.outputs:
                    output.type = output.shape = None

    @classmethod
    def of_file(cls, proto: onnx.ModelProto, folder: Path, threads: int) -> WideGraph:
        """Return the graph of a file, whose external data lies in ``folder``; weights are not copied."""
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto)
        model = ir.from_proto(proto)
        external_data.set_base_dir(model.graph, folder)
        return cls(model, threads)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs in the graph's order.

        Raises:
            RefusedError: Some node runs nowhere in float64.
        """
        names = [str(value.name) for value in self._model.graph.outputs]
        found = self.inner(feeds, names)
        return [found[name] for name in names]

    def untaken(self) -> list[str]:
        """Return the branches that no run took of conditions that were met, outer before inner."""
        return [
            f"{name} of {describe(node)}"
            for node, taken in self._taken.items()
            for name in _BRANCHES
            if name not in taken
        ]

    def inner(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Return any values of the main graph by name; raises as ``run``."""
        graph = self._model.graph
        known = ir.convenience.create_value_mapping(graph, include_subgraphs=False)
        values = {value: _wide(feeds[str(value.name)]) for value in graph.inputs if value.name in feeds}
        kept = {known[name] for name in wanted}
        self._run_graph(graph, values, kept)
        return {str(value.name): _read(value, values) for value in kept}

    def _run_graph(self, graph: ir.Graph, values: Values, kept: Collection[ir.Value]) -> None:
        left = {value: len(value.uses()) for node in graph for value in node.outputs}
        for node in graph:
            for output, array in zip(node.outputs, self._run_node(node, values), strict=True):
                if array is not None:
                    values[output] = array
            for value in node.inputs:  # activations in float64 are large: none is kept past its last use
                if value is not None and value in left:
                    left[value] -= 1
                    if not left[value] and value not in kept:
                        values.pop(value, None)

    def _run_node(self, node: ir.Node, values: Values) -> Sequence[Array | None]:
        if is_op(node, "Constant"):
            tensor = constant_of_node(node)
            if tensor is None:
                raise RefusedError("a sparse constant has no float64 form", slug="oracle")
            return [_wide(tensor.numpy())]
        inputs = [None if value is None else _read(value, values) for value in node.inputs]
        if is_op(node, "If"):
            return self._run_branch(node, inputs[0], values)
        inputs = _without_forbidden(node, inputs, self._version(node))
        try:
            results = self._evaluate(node, inputs)
        except RefusedError:
            with np.errstate(all="ignore"):
                results = emulate(node, inputs, self._model.opset_imports)
            narrow = [None if array is None else _narrow(array) for array in inputs]
            _require_agreement(node, results, self._evaluate(node, narrow))
        return [None if array is None else _wide(array) for array in results]

    def _run_branch(self, node: ir.Node, condition: Array | None, values: Values) -> list[Array]:
        taken = _BRANCHES[not bool(np.asarray(condition).reshape(-1)[0])]
        self._taken.setdefault(node, set()).add(taken)
        branch = node.attributes[taken].as_graph()
        self._run_graph(branch, values, set(branch.outputs))
        return [_read(value, values) for value in branch.outputs]

    def _evaluate(self, node: ir.Node, inputs: Sequence[Array | None]) -> list[Array | None]:
        tensors = [None if array is None else ir.tensor(array) for array in inputs]
        return self._oracle.evaluate(node, tensors, self._model.opset_imports)

    def _version(self, node: ir.Node) -> int:
        return self._model.opset_imports.get(node.domain, 1)


def _read(value: ir.Value, values: Values) -> Array:
    if value in values:
        return values[value]
    if value.const_value is None:
        raise RefusedError(f"'{value.name}' has no value in float64", slug="oracle")
    return _wide(value.const_value.numpy())


def _wide(array: Array) -> Array:
    narrow = array.dtype in (np.float32, np.float16) or array.dtype.name == "bfloat16"
    return array.astype(np.float64) if narrow else np.asarray(array)


def _narrow(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _without_forbidden(node: ir.Node, inputs: Sequence[Array | None], version: int) -> list[Array | None]:
    """Return ``inputs`` with those in float32 that the operator takes in nothing wider: Resize's scales."""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return list(inputs)
    types = {
        constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints
    }
    forms = [*schema.inputs, *[schema.inputs[-1]] * len(inputs)] if schema.inputs else []
    return [
        array
        if array is None or "tensor(double)" in types.get(form.type_str, [form.type_str])
        else _narrow(array)
        for array, form in zip(inputs, forms, strict=False)
    ]


def _require_agreement(node: ir.Node, wide: Sequence[Array | None], narrow: Sequence[Array | None]) -> None:
    """Refuse results that are no float64 form of what ONNX Runtime computes."""
    for mine, theirs in zip(wide, narrow, strict=True):
        if mine is None or theirs is None:
            continue
        if mine.shape != theirs.shape or not _near(mine, theirs):
            raise RefusedError(f"{node.op_type} has no float64 form that can be trusted", slug="oracle")


def _near(wide: Array, narrow: Array) -> bool:
    if narrow.dtype.kind != "f":
        return bool(np.array_equal(wide, narrow))
    both = np.isfinite(wide) & np.isfinite(narrow)
    error = np.abs(wide[both] - narrow[both]).max(initial=0.0)
    return bool(error <= _AGREEMENT * np.abs(narrow[both]).max(initial=0.0))


def _widen_attributes(node: ir.Node) -> None:
    """Turn what the attributes say of types to float64: Cast, ConstantOfShape, EyeLike."""
    for name in ("to", "dtype"):
        attribute = node.attributes.get(name)
        if attribute is not None and attribute.type == ir.AttributeType.INT and attribute.as_int() in _NARROW:
            node.attributes[name] = ir.AttrInt64(name, ir.DataType.DOUBLE)
    if is_op(node, "ConstantOfShape"):
        value = node.attributes.get("value")
        filled = np.zeros(1, np.float32) if value is None else value.as_tensor().numpy()
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(_wide(filled)))
