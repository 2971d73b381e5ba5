"""Making nodes in front of another node: with its origin, and names that are free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import new_initializer
from aotc.ir.edit import Names
from aotc.ir.scopes import inherit

Dims = Sequence[int | ir.SymbolicDim] | ir.Shape


class Builder:
    """Makes nodes directly before ``anchor``, which give their results names that begin with ``stem``.

    Args:
        anchor: The node in front of which new ones go; they inherit its origin.
        names: The names of the model.
        stem: How the names of new values begin.
    """

    def __init__(self, anchor: ir.Node, names: Names, stem: str) -> None:
        assert anchor.graph is not None
        self._anchor, self._graph, self._names, self._stem = anchor, anchor.graph, names, stem

    def op(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, Any] | None = None,
        *,
        dtype: ir.DataType | None,
        shape: Dims | None,
    ) -> ir.Value:
        """Make a standard operator and return its one result, of the given type and shape."""
        node = ir.node(op_type, inputs, attributes or {})
        value = node.outputs[0]
        value.name = self._names.fresh(f"{self._stem}_{op_type.lower()}")
        value.type = None if dtype is None else ir.TensorType(dtype)
        value.shape = None if shape is None else ir.Shape(shape)
        node.name = f"node_{value.name}"
        inherit(node, [self._anchor])
        self._graph.insert_before(self._anchor, node)
        return value

    def constant(self, array: np.ndarray[Any, Any], stem: str) -> ir.Value:
        """Make an initialiser that comes from no parameter of the model."""
        value = new_initializer(self._names.fresh(f"{self._stem}_{stem}"), ir.Tensor(array), [])
        self._graph.initializers.add(value)
        return value

    def like(self, op_type: str, inputs: Sequence[ir.Value], shape: Dims | None) -> ir.Value:
        """Make an operator whose result has the type of its first input."""
        return self.op(op_type, inputs, dtype=inputs[0].dtype, shape=shape)
