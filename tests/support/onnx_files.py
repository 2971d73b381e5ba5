"""ONNX files made on the spot, and what the compiler makes of them next to the untouched file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from aotc.export.onnx_source import ImportedOnnx, OnnxSource, import_onnx, read_source
from aotc.export.to_onnx import OPSET
from aotc.ir.verify import faults_of
from aotc.oracle import Oracle

Array = np.ndarray[Any, Any]
ORACLE = Oracle(threads=1)


def info(name: str, shape: Sequence[int | str | None] | None, dtype: str = "float32") -> onnx.ValueInfoProto:
    """Describe an input or output."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def constant(name: str, value: Any, dtype: str = "float32") -> onnx.TensorProto:
    """Return an initialiser."""
    return onnx.numpy_helper.from_array(np.asarray(value, dtype), name)


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    **model: Any,
) -> Path:
    """Write a model of these nodes; ``domains`` are further opset imports.

    Outputs that are given no shape get the one that ONNX infers, without its symbols.
    """
    graph = helper.make_graph(nodes, "graph", inputs, outputs, constants)
    imports = [helper.make_opsetid("", opset), *model.pop("domains", ())]
    proto = helper.make_model(graph, opset_imports=imports, **{"ir_version": 8, **model})
    tensors = [value.type.tensor_type for value in outputs if value.type.HasField("tensor_type")]
    if not all(tensor.HasField("shape") for tensor in tensors):
        _complete(proto)
    path.write_bytes(proto.SerializeToString())
    return path


def _complete(proto: onnx.ModelProto) -> None:
    graph = proto.graph
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(proto).graph.output}
    known |= {v.name: v for v in graph.input} | {t.name: info("", t.dims) for t in graph.initializer}
    for output in graph.output:
        dims = known[output.name].type.tensor_type.shape.dim
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        output.type.tensor_type.shape.CopyFrom(info("", shape).type.tensor_type.shape)


def imported(path: Path, inputs: Mapping[str, Array] | None = None, **fields: Any) -> ImportedOnnx:
    """Import the file as a build does; the graph must be valid and of the compiler's opset."""
    source = OnnxSource(path, dict(inputs) if inputs is not None else None, **fields)
    found = import_onnx(source, read_source(source), ORACLE.open_file(path))
    assert list(faults_of(found.model)) == []
    assert found.model.opset_imports[""] == OPSET
    return found


def assert_converts(
    path: Path, inputs: Mapping[str, Array] | None = None, *, rtol: float = 1e-6
) -> ImportedOnnx:
    """Check that the converted graph computes what the untouched file does, both by the oracle."""
    found = imported(path, inputs)
    want = ORACLE.open_file(path)(found.example)
    got = ORACLE.run(found.model, found.example)
    for array, (name, mine) in zip(want, got.items(), strict=True):
        assert mine.dtype == array.dtype, name
        np.testing.assert_allclose(mine, array, rtol=rtol, atol=rtol, err_msg=name)
    return found
