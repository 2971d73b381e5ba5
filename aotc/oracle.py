"""The oracle: the one place that runs graphs for checking.

ONNX Runtime on the CPU with every graph optimisation off, so that what runs is what the graph says; the ONNX
reference implementation where ONNX Runtime has no kernel. Weights go in as values and never through
protobuf: creating a session for a small graph costs less than a millisecond, copying weights is what costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.errors import RefusedError

Array = np.ndarray[Any, Any]
_INLINE_BYTES = 1024


@dataclasses.dataclass(frozen=True)
class Oracle:
    """Runs models and single nodes. ``threads`` 0 leaves the number to ONNX Runtime."""

    threads: int = 0

    def run(self, model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run ``model`` on ``feeds`` (input name to array) and return its outputs by name.

        Raises:
            RefusedError: Neither ONNX Runtime nor the reference implementation runs the model.
        """
        copy = model.clone()
        values = dict(feeds)
        for name, value in list(copy.graph.initializers.items()):
            tensor = value.const_value
            if tensor is not None and tensor.nbytes > _INLINE_BYTES:
                del copy.graph.initializers[name]
                values[name] = tensor.numpy()
                value.const_value = None
                copy.graph.inputs.append(value)
        names = [str(output.name) for output in copy.graph.outputs]
        return dict(zip(names, self._run_proto(ir.to_proto(copy), names, values), strict=True))

    def evaluate(self, node: ir.Node, inputs: Sequence[Array | None]) -> list[Array]:
        """Run one node on ``inputs`` (None where the node's optional input is absent).

        Raises:
            RefusedError: No kernel runs the node, or the node reads values of an outer scope.
        """
        values: list[ir.Value | None] = []
        feeds: dict[str, Array] = {}
        for index, array in enumerate(inputs):
            if array is None:
                values.append(None)
                continue
            name = f"input_{index}"
            dtype, shape = ir.DataType.from_numpy(array.dtype), ir.Shape(array.shape)
            values.append(ir.Value(name=name, type=ir.TensorType(dtype), shape=shape))
            feeds[name] = array
        outputs = [ir.Value(name=f"output_{i}", type=o.type) for i, o in enumerate(node.outputs)]
        copy = ir.Node(
            node.domain, node.op_type, values, node.attributes.values(), outputs=outputs, version=node.version
        )
        graph = ir.Graph(
            [v for v in values if v is not None],
            outputs,
            nodes=[copy],
            opset_imports=_opset_imports(node),
            name="node",
        )
        proto = ir.to_proto(ir.Model(graph, ir_version=10))
        return self._run_proto(proto, [str(o.name) for o in outputs], feeds)

    def _run_proto(self, proto: Any, names: list[str], feeds: Mapping[str, Array]) -> list[Array]:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as state

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = self.threads
        try:
            session = onnxruntime.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return list(session.run(names, dict(feeds)))
        except state.NotImplemented:
            return _run_reference(proto, names, feeds)
        except (state.Fail, state.InvalidArgument, state.InvalidGraph, state.RuntimeException) as error:
            raise RefusedError(f"the oracle cannot run this graph: {error}", slug="oracle") from error


def _opset_imports(node: ir.Node) -> dict[str, int]:
    graph = node.graph
    while isinstance(graph, ir.Graph) and not graph.opset_imports and graph.parent_node is not None:
        graph = graph.parent_node.graph
    imports = dict(graph.opset_imports) if graph is not None else {}
    if node.domain not in imports:
        raise RefusedError(f"the domain of {node.op_type} has no opset import", slug="oracle")
    return imports


def _run_reference(proto: Any, names: list[str], feeds: Mapping[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    try:
        return list(ReferenceEvaluator(proto).run(names, dict(feeds)))
    except Exception as error:  # noqa: BLE001 - the reference implementation raises whatever its numpy code raises
        raise RefusedError(f"no runtime has a kernel for this graph: {error}", slug="oracle") from error
