"""Compute at build time what does not depend on the inputs."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.errors import RefusedError
from aotc.ir.constants import constant, constant_of_node, new_initializer, sources
from aotc.ir.edit import Names, discard_dead_initializers, remove
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.single import result_bytes
from aotc.ir.walk import graphs, is_op, subgraphs, why_not_deterministic
from aotc.rewrite import Context, Pass, PassResult, Refusal

_BOUNDED = ("Compress", "NonZero", "Unique")
"""Operators whose result has an unknown size, but at most 32 times that of their inputs."""


@dataclasses.dataclass(frozen=True)
class FoldConstants(Pass):
    """Replace nodes whose inputs are all constants by their results, and Constant nodes by initialisers.

    Rewrites:
        A Constant node becomes an initialiser. A node whose inputs are all constants is run by the oracle and
        its results become initialisers, which note the parameters they came from (``aotc.source``). Shape
        and Size of a value with a static shape, and CastLike to the type of any value, become constants too.
        A result that is a graph output is
        passed through an Identity, which keeps the output apart from the initialiser. Initialisers that
        nobody uses afterwards are removed at once. Works in subgraphs.

    Requires:
        Static shapes, where they are declared, to be true.

    Refuses when:
        The results take more than ``max_bytes``, unless the constants that die with the node take no less (a
        transposed weight); their size can't be told before they are computed; the operator is random,
        of an unknown domain, or DequantizeLinear (quantised weights stay small); a result is not a tensor of
        numbers; the oracle can't run it. Nodes with subgraphs and Identity are left alone.

    Numerics:
        The results are those of the oracle's kernel in the node's own types; moving data is exact.
    """

    max_bytes: int = 1 << 20

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place; repeats because a fold may leave a large constant to one last user."""
        changes: list[str] = []
        while True:
            folding = _Folding(model, context, self.max_bytes)
            for graph in graphs(model):
                for node in graph:
                    folding.visit(node)
            changes.extend(folding.changes)
            if not folding.changes:
                return PassResult(tuple(changes), tuple(folding.refusals))


class _Folding:
    """One sweep over the model."""

    def __init__(self, model: ir.Model, context: Context, max_bytes: int) -> None:
        self.changes: list[str] = []
        self.refusals: list[Refusal] = []
        self._opsets, self._names = model.opset_imports, Names(model)
        self._oracle, self._max_bytes = context.oracle, max_bytes

    def visit(self, node: ir.Node) -> None:
        if is_op(node, "Identity") or any(True for _ in subgraphs(node)):
            return
        if is_op(node, "Constant"):
            tensor = constant_of_node(node)
            if tensor is not None and not node.outputs[0].is_graph_output():
                self._replace(node, [tensor], [])
        elif (sizes := _static_sizes(node)) is not None:
            self._replace(node, [ir.Tensor(sizes)], [])
        elif (tensors := _operands(node)) is not None:
            self._fold(node, tensors)

    def _fold(self, node: ir.Node, tensors: list[ir.TensorProtocol | None]) -> None:
        try:
            reason = self._why_not(node, tensors)
            results = None if reason else self._results(node, tensors)
        except RefusedError as error:
            reason, results = error.message, None
        if results is None:
            self.refusals.append(Refusal(str(reason), describe(node)))
        else:
            self._replace(node, results, sources(value for value in node.inputs if constant(value)))

    def _why_not(self, node: ir.Node, tensors: list[ir.TensorProtocol | None]) -> str | None:
        if reason := why_not_deterministic(node):
            return reason
        if is_op(node, "DequantizeLinear"):
            return f"'{node.outputs[0].name}' is a dequantised weight, which stays in its small form"
        if any(tensor is not None and tensor.dtype == ir.DataType.STRING for tensor in tensors):
            return "strings are not folded"
        size = result_bytes(node, tensors, self._opsets)
        if size is None and is_op(node, *_BOUNDED):
            size = 32 * sum(tensor.nbytes for tensor in tensors if tensor is not None)
        if size is None:
            return f"the size of '{node.outputs[0].name}' is not known before it is computed"
        dying = sum(tensor.nbytes for value in _dying(node) if (tensor := constant(value)) is not None)
        if size > max(self._max_bytes, dying):
            return f"'{node.outputs[0].name}' takes {size} bytes, more than max_bytes={self._max_bytes}"
        return None

    def _results(
        self, node: ir.Node, tensors: list[ir.TensorProtocol | None]
    ) -> list[ir.TensorProtocol | None]:
        first = tensors[0]
        if is_op(node, "Transpose") and first is not None and first.nbytes > self._max_bytes:
            # A view: the large weight is neither copied nor, if it lies in a file, read.
            return [ir.Tensor(first.numpy().transpose(node.attributes.get_ints("perm")), dtype=first.dtype)]
        arrays = self._oracle.evaluate(node, tensors, self._opsets)
        if any(array is not None and not _is_numeric(array) for array in arrays):
            raise RefusedError("its result is not a tensor of numbers", slug="oracle")
        return [None if array is None else ir.Tensor(np.asarray(array)) for array in arrays]

    def _replace(self, node: ir.Node, tensors: list[ir.TensorProtocol | None], origins: list[str]) -> None:
        """Put ``tensors`` in the place of the outputs of ``node``; drop it and what it alone used."""
        assert node.graph is not None
        for output, tensor in zip(node.outputs, tensors, strict=True):
            if tensor is None or not (output.uses() or output.is_graph_output()):
                continue
            stem = f"{output.name}_folded"
            name = self._names.fresh(stem) if output.is_graph_output() else str(output.name)
            value = new_initializer(name, tensor, origins)
            node.graph.initializers.add(value)
            if output.is_graph_output():
                value = _pass_through(node, value, output)
            output.replace_all_uses_with(value, replace_graph_outputs=True)
        self.changes.append(f"{place(node)}: {node.op_type} -> constant")
        inputs = list(node.inputs)
        remove(node)
        discard_dead_initializers(inputs)


def _operands(node: ir.Node) -> list[ir.TensorProtocol | None] | None:
    """Return the constants that ``node`` reads, or None if what it computes depends on anything else."""
    values = list(node.inputs)
    tensors = [constant(value) for value in values]
    if is_op(node, "CastLike") and tensors[1] is None and values[1] is not None:
        dtype = values[1].dtype  # the second input matters only by its type
        if dtype not in (None, ir.DataType.UNDEFINED, ir.DataType.STRING):
            tensors[1] = ir.Tensor(np.zeros((), dtype.numpy()), dtype=dtype)
    known = all(value is None or tensor is not None for value, tensor in zip(values, tensors, strict=True))
    return tensors if values and known else None


def _static_sizes(node: ir.Node) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    """Return what Shape or Size gives for an input of static shape; None for anything else."""
    if not is_op(node, "Shape", "Size") or node.inputs[0] is None:
        return None
    shape = node.inputs[0].shape
    if shape is None or not shape.is_static():
        return None
    sizes = np.asarray(shape.numpy(), dtype=np.int64)
    if node.op_type == "Size":
        return np.asarray(sizes.prod(), dtype=np.int64)
    return sizes[node.attributes.get_int("start", 0) : node.attributes.get_int("end", None)]


def _dying(node: ir.Node) -> list[ir.Value]:
    """Return the constants that only ``node`` uses."""
    return [
        value
        for value in dict.fromkeys(node.inputs)
        if value is not None and not value.is_graph_output() and set(value.consumers()) == {node}
    ]


def _is_numeric(array: object) -> bool:
    return isinstance(array, np.ndarray | np.generic) and array.dtype.kind not in "OUS"


def _pass_through(node: ir.Node, constant: ir.Value, output: ir.Value) -> ir.Value:
    """Insert an Identity from ``constant`` to a value that can stand for the graph output ``output``."""
    value = ir.Value(name=output.name, type=output.type, shape=output.shape)
    value.metadata_props.update(output.metadata_props)
    identity = ir.Node("", "Identity", [constant], outputs=[value])
    inherit(identity, [node])
    node.prepend(identity)
    return value
