"""The machine-specific session file: ONNX Runtime's own optimised graph over the shared weights."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx_ir as ir

from aotc import optional
from aotc.backends.ort_cpu import INLINE_BYTES, OPTIMISED, OPTIMISED_WEIGHTS, PORTABLE
from aotc.backends.ort_cpu.emit import external, write_tensor
from aotc.bundle import EngineEntry, Requirements, TensorEntry
from aotc.child import Progress
from aotc.errors import RefusedError
from aotc.ir import scopes
from aotc.runtime import requirements_here
from aotc.runtime.failures import runtime_failures, text_of

_GRAPH, _DATA = "graph.onnx", "data"
_Known = tuple[TensorEntry, np.ndarray[Any, Any]]


def emit_optimised(directory: Path, portable: EngineEntry, requires: Requirements) -> EngineEntry:
    """Let ONNX Runtime optimise the portable session and write the result beside it.

    Tensors whose bytes equal one of the portable session's point into the shared weights file; the ones that
    ONNX Runtime rewrote (reordered convolution filters, folded constants) go to a file of their own.

    Args:
        directory: Holds the portable session and its weights.
        portable: Its entry.
        requires: This machine: the file is only good where runtime and CPU flags are the same.
    """
    with tempfile.TemporaryDirectory(dir=directory, prefix=".optimise-") as scratch:
        _run_optimiser(directory / PORTABLE, Path(scratch))
        model = ir.load(Path(scratch) / _GRAPH)
        _name_new_nodes(model, ir.load(directory / PORTABLE))
        entries = _share_weights(model, directory, portable)
        proto = ir.to_proto(model)
        (directory / OPTIMISED).write_bytes(proto.SerializeToString(deterministic=True))
    tensors = tuple(sorted(entries, key=lambda entry: entry.name))
    return EngineEntry(file=OPTIMISED, kind="ort-optimised", requires=requires, tensors=tensors)


def _run_optimiser(model: Path, scratch: Path) -> None:
    onnxruntime: Any = optional.require("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(scratch / _GRAPH)
    options.log_severity_level = 3
    for key, value in {
        "session.optimized_model_external_initializers_file_name": _DATA,
        "session.optimized_model_external_initializers_min_size_in_bytes": str(INLINE_BYTES),
        # Packed copies of the weights would only cost memory: this session never runs.
        "session.disable_prepacking": "1",
    }.items():
        options.add_session_config_entry(key, value)
    try:
        onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except runtime_failures() as error:
        text = text_of(error).replace(str(model), model.name)
        raise RefusedError(
            f"onnxruntime cannot load this graph: {text}",
            slug="ort-cpu",
            where=scopes.place_in_text(ir.load(model), text),
            hint="compute it in float32, or write that line with other operators",
        ) from error


def _name_new_nodes(model: ir.Model, portable: ir.Model) -> None:
    """Name every node that the portable file lacks by its place.

    ONNX Runtime names those that it adds in the order of their addresses. The others keep their names, by
    which a message of the runtime is traced to the model's code.
    """
    known = {node.name for node in portable.graph.all_nodes()}
    for index, node in enumerate(model.graph.all_nodes()):
        if node.name not in known:
            node.name = f"{node.op_type}_{index}"


def _share_weights(model: ir.Model, directory: Path, portable: EngineEntry) -> list[TensorEntry]:
    known = _by_length(directory, portable)
    entries = []
    with (directory / OPTIMISED_WEIGHTS).open("xb") as file:
        for graph in model.graph.subgraphs():
            for value in graph.initializers.values():
                if isinstance(value.const_value, ir.ExternalTensor):
                    value.const_value = ir.Tensor(value.const_value.numpy().copy(), name=value.name)
        for value in model.graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                entry = _entry(file, value, known)
                entries.append(entry)
                value.const_value = external(entry, value.const_value.dtype, directory)
        empty = file.tell() == 0
    if empty:
        (directory / OPTIMISED_WEIGHTS).unlink()
    return entries


def _entry(file: BinaryIO, value: ir.Value, known: Mapping[int, list[_Known]]) -> TensorEntry:
    tensor = value.const_value
    assert tensor is not None
    data = np.frombuffer(tensor.tobytes(), np.uint8)
    for entry, shared in known.get(data.size, ()):
        if np.array_equal(data, shared):
            shape, dtype = tuple(tensor.shape.numpy()), tensor.dtype.numpy().name
            return entry.model_copy(update={"name": str(value.name), "shape": shape, "dtype": dtype})
    return write_tensor(file, str(value.name), tensor, OPTIMISED_WEIGHTS)


def _by_length(directory: Path, portable: EngineEntry) -> dict[int, list[_Known]]:
    """Return the portable session's tensors with their bytes, which stay in the file until they are read."""
    found: dict[int, list[_Known]] = {}
    for entry in portable.tensors:
        data = np.memmap(directory / entry.file, np.uint8, "r", entry.offset, (entry.length,))
        found.setdefault(entry.length, []).append((entry, data))
    return found


def emit_in_child(payload: dict[str, Any], progress: Progress) -> Any:
    """Child process entry: ``directory`` and ``portable`` entry in, the optimised engine's entry out."""
    progress(PORTABLE)
    portable = EngineEntry.model_validate(payload["portable"])
    entry = emit_optimised(Path(payload["directory"]), portable, requirements_here())
    return entry.model_dump(mode="json")
