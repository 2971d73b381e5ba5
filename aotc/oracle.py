"""The oracle: the one place that runs graphs for checking.

ONNX Runtime on the CPU with every graph optimisation off, so that what runs is what the graph says; the ONNX
reference implementation where ONNX Runtime has no kernel. Weights go in as values and never through
protobuf: creating a session for a small graph costs less than a millisecond, copying weights is what costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.ir.edit import remove
from aotc.ir.single import isolate
from aotc.ir.walk import graphs, is_op, subgraphs
from aotc.runtime.failures import runtime_failures, text_of

Array = np.ndarray[Any, Any]
_INLINE_BYTES = 1024
_ONE_THREAD_BYTES = 1 << 20
_WIRE = "__as_float32"
_FOREIGN = frozenset(
    dtype
    for dtype in ir.DataType
    if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING) and dtype.numpy().isbuiltin != 1
)
"""Types that numpy itself lacks (not built in): bfloat16, float8, 4-bit and smaller."""


@dataclasses.dataclass(frozen=True)
class Oracle:
    """Runs models and single nodes.

    ``threads`` 0 leaves the number to ONNX Runtime; without ``reference`` the ONNX reference implementation
    does not step in.
    """

    threads: int = 0
    reference: bool = True

    def run(self, model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run ``model`` on ``feeds`` (input name to array) and return its outputs by name.

        Raises:
            RefusedError: Neither ONNX Runtime nor the reference implementation runs the model.
        """
        copy = model.clone()
        values = {**_lift_constants(copy), **feeds}
        names = [str(output.name) for output in copy.graph.outputs]
        return dict(zip(names, self._run(ir.to_proto(copy), names, values), strict=True))

    def define(self, model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run ``model`` on the ONNX reference implementation alone, which is slow and exact in integers.

        Raises:
            RefusedError: It does not run the model.
        """
        copy = model.clone()
        values = {**_lift_constants(copy), **feeds}
        names = [str(output.name) for output in copy.graph.outputs]
        return dict(zip(names, _run_reference(ir.to_proto(copy), names, values, None), strict=True))

    def evaluate(
        self,
        node: ir.Node,
        inputs: Sequence[ir.TensorProtocol | None],
        opset_imports: Mapping[str, int],
    ) -> list[Array | None]:
        """Run one node on ``inputs`` (None where an optional input is absent).

        Returns:
            One array for each output of the node, None where the node leaves an optional output out.

        Raises:
            RefusedError: No kernel runs the node, or it has subgraphs, which may read an outer scope.
        """
        if any(True for _ in subgraphs(node)):
            raise RefusedError(f"{node.op_type} has subgraphs and can't be run alone", slug="oracle")
        if node.domain not in opset_imports:
            raise RefusedError(f"the domain '{node.domain}' has no opset import", slug="oracle")
        model = isolate(node, inputs, opset_imports)
        feeds = {f"input_{i}": tensor.numpy() for i, tensor in enumerate(inputs) if tensor is not None}
        names = [str(output.name) for output in model.graph.outputs]
        proto = ir.to_proto(model)
        # A graph is a cycle: what it holds would stay until the next collection.
        for value in model.graph.inputs:
            value.const_value = None
        results = dict(zip(names, self._run(proto, names, feeds), strict=True))
        return [results.get(f"output_{i}") for i in range(len(node.outputs))]

    def open_file(self, path: Path) -> Callable[[Mapping[str, Array]], list[Array]]:
        """Load the ONNX file at ``path`` as it is and return what runs it, with its outputs in its own order.

        What that raises for inputs it refuses is one of ``aotc.runtime.failures.runtime_failures()``.

        Raises:
            RefusedError: ONNX Runtime does not load the file.
        """
        import onnxruntime

        try:
            session = onnxruntime.InferenceSession(
                str(path), _options(self.threads), providers=["CPUExecutionProvider"]
            )
        except runtime_failures() as error:
            raise RefusedError(
                f"onnxruntime does not run this file: {text_of(error)}",
                slug="oracle",
                where=str(path),
                hint="it must run in plain ONNX Runtime on CPU, which says what is right",
            ) from error
        return lambda feeds: list(session.run(None, dict(feeds)))

    def _run(self, proto: onnx.ModelProto, names: list[str], feeds: Mapping[str, Array]) -> list[Array]:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        if any(not value.type.tensor_type.elem_type for value in proto.graph.output):
            proto = onnx.shape_inference.infer_shapes(proto)
        wired, foreign = _wire_inputs(proto.graph, feeds), _wire_outputs(proto.graph)
        requested = [name + _WIRE if name in foreign else name for name in names]
        small = sum(array.nbytes for array in wired.values()) < _ONE_THREAD_BYTES
        options = _options(1 if small else self.threads)
        try:
            session = onnxruntime.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            results = session.run(requested, wired)
        except (state.NotImplemented, state.Fail) as error:
            if not self.reference:
                raise RefusedError(f"onnxruntime cannot run this graph: {error}", slug="oracle") from error
            # Fail at run time is how a kernel says that it does less than the standard (Attention and masks
            # that broadcast); an input that is really wrong fails in the reference implementation as well.
            results = _run_reference(proto, requested, wired, error)
        except (
            *(state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf),
            *(state.NotFound, state.EPFail, state.RuntimeException, RuntimeError),
        ) as error:
            raise RefusedError(f"the oracle cannot run this graph: {error}", slug="oracle") from error
        return [
            result.astype(foreign[name].numpy()) if name in foreign else result
            for name, result in zip(names, results, strict=True)
        ]


def _options(threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.intra_op_num_threads = threads
    return options


def _lift_constants(model: ir.Model) -> dict[str, Array]:
    """Turn the large constants of ``model``, at any depth, into inputs of its main graph."""
    values: dict[str, Array] = {}
    for graph in graphs(model):
        for name, value in list(graph.initializers.items()):
            if _is_large(value.const_value) and not (value.is_graph_input() or value.is_graph_output()):
                del graph.initializers[name]
                _feed(model, value, value.const_value, values)
        for node in list(graph):
            if is_op(node, "Constant") and "value" in node.attributes:
                tensor = node.attributes["value"].as_tensor()
                if _is_large(tensor) and not node.outputs[0].is_graph_output():
                    value = ir.Value()
                    node.outputs[0].replace_all_uses_with(value)
                    remove(node)
                    _feed(model, value, tensor, values)
    return values


def _is_large(tensor: ir.TensorProtocol | None) -> bool:
    return tensor is not None and tensor.dtype != ir.DataType.STRING and tensor.nbytes > _INLINE_BYTES


def _feed(
    model: ir.Model, value: ir.Value, tensor: ir.TensorProtocol | None, values: dict[str, Array]
) -> None:
    assert tensor is not None
    value.const_value = None
    value.name = f"aotc_lifted_{len(values)}"
    value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
    model.graph.inputs.append(value)
    values[value.name] = tensor.numpy()


def _wire_inputs(graph: onnx.GraphProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Let bfloat16, float8 and 4-bit values cross the Python interface, which knows only numpy's own types.

    They cross as float32, which holds each of them exactly, with a cast inside the graph.
    """
    wired, casts = dict(feeds), []
    for value in graph.input:
        dtype = ir.DataType(value.type.tensor_type.elem_type)
        if dtype in _FOREIGN and value.name in wired:
            name = f"{value.name}{_WIRE}"
            casts.append(onnx.helper.make_node("Cast", [name], [value.name], to=int(dtype)))
            wired[name] = wired.pop(value.name).astype(np.float32)
            value.name, value.type.tensor_type.elem_type = name, onnx.TensorProto.FLOAT
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend([*casts, *nodes])
    return wired


def _wire_outputs(graph: onnx.GraphProto) -> dict[str, ir.DataType]:
    """Do the same for the outputs; return the types that those that cross as float32 have in the graph."""
    types: dict[str, ir.DataType] = {}
    for value in graph.output:
        dtype = ir.DataType(value.type.tensor_type.elem_type)
        if dtype in _FOREIGN:
            types[value.name] = dtype
            name = f"{value.name}{_WIRE}"
            graph.node.append(onnx.helper.make_node("Cast", [value.name], [name], to=onnx.TensorProto.FLOAT))
            value.name, value.type.tensor_type.elem_type = name, onnx.TensorProto.FLOAT
    return types


def _run_reference(
    proto: onnx.ModelProto, names: list[str], feeds: Mapping[str, Array], cause: Exception | None
) -> list[Array]:
    """Run the reference implementation, perhaps because of ``cause``: what ONNX Runtime said."""
    from onnx.reference import ReferenceEvaluator

    try:
        return list(ReferenceEvaluator(proto).run(names, dict(feeds)))
    except Exception as error:
        first = "" if cause is None else f"{cause}; "
        raise RefusedError(
            f"the oracle cannot run this graph: {first}the reference implementation: {error}", slug="oracle"
        ) from error
