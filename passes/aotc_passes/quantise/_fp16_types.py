"""What the schemas of ONNX say of types: which inputs and results of a node may be float16 for float32."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import onnx
import onnx_ir as ir

_FLOAT = ir.DataType.FLOAT
_HALF_TEXT = "tensor(float16)"
_FIXED = {"tensor(int64)": ir.DataType.INT64, "tensor(bool)": ir.DataType.BOOL, "tensor(float)": _FLOAT}
Formal = onnx.defs.OpSchema.FormalParameter


class Types:
    """The types of a graph's values; those that it does not say follow from the schemas."""

    def __init__(self, graph: ir.Graph) -> None:
        self._opsets = graph.opset_imports
        self._inferred: dict[ir.Value, ir.DataType] = {}
        for node in graph:
            if any(value.dtype is None for value in node.outputs):
                self._infer(node)

    def of(self, value: ir.Value) -> ir.DataType | None:
        """Return the type of a tensor; None if it is not known, or no tensor."""
        if value.type is None:
            return self._inferred.get(value)
        return value.dtype if isinstance(value.type, ir.TensorType) else None

    def is_float32(self, value: ir.Value | None) -> bool:
        """Return whether ``value`` is a tensor of float32."""
        return value is not None and self.of(value) == _FLOAT

    def half_inputs(self, node: ir.Node) -> list[int]:
        """Return which float32 inputs of ``node`` may be float16: the scales of Resize may not."""
        schema = self._schema(node)
        if schema is None:
            return []
        return [
            index
            for index, (value, formal) in enumerate(_pairs(node.inputs, schema.inputs))
            if self.is_float32(value) and _HALF_TEXT in formal.types
        ]

    def half_outputs(self, node: ir.Node) -> list[ir.Value] | None:
        """Return the float32 results that are float16 if those inputs are; None if that is not known."""
        schema = self._schema(node)
        if schema is None:
            return None
        halves = self.half_inputs(node)
        inputs = list(_pairs(node.inputs, schema.inputs))
        variables = {inputs[index][1].type_str for index in halves}
        found = [
            (value, formal.type_str)
            for value, formal in _pairs(node.outputs, schema.outputs)
            if self.is_float32(value) and _HALF_TEXT in formal.types
        ]
        known = all(variable in variables for _, variable in found)
        return [value for value, _ in found if value is not None] if known else None

    def _schema(self, node: ir.Node) -> onnx.defs.OpSchema | None:
        version = self._opsets.get(node.domain)
        return None if version is None else _schema(node.op_type, version, node.domain)

    def _infer(self, node: ir.Node) -> None:
        schema = self._schema(node)
        if schema is None:
            return
        known = {
            formal.type_str: dtype
            for value, formal in _pairs(node.inputs, schema.inputs)
            if value is not None and (dtype := self.of(value)) is not None
        }
        for value, formal in _pairs(node.outputs, schema.outputs):
            dtype = _FIXED.get(next(iter(formal.types))) if len(formal.types) == 1 else None
            if node.op_type == "Cast":
                dtype = ir.DataType(node.attributes.get_int("to", 0))
            dtype = dtype or known.get(formal.type_str)
            if value is not None and value.type is None and dtype:
                self._inferred[value] = dtype


@functools.lru_cache(maxsize=512)
def _schema(op_type: str, version: int, domain: str) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def _pairs(
    values: Sequence[ir.Value | None], formals: Sequence[Formal]
) -> Iterator[tuple[ir.Value | None, Formal]]:
    """Yield each value with its formal parameter; the last one may stand for several."""
    for index, value in enumerate(values):
        yield value, formals[min(index, len(formals) - 1)]
