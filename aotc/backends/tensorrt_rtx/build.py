"""The emit stage of ``tensorrt-rtx``: the canonical graph becomes an engine, in a child process."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from aotc.backends.tensorrt_rtx import ENGINE, ROUNDED
from aotc.backends.tensorrt_rtx.profiles import profile_shapes
from aotc.backends.tensorrt_rtx.traps import refuse_traps
from aotc.bundle import DeviceRequirements, EngineEntry
from aotc.child import Progress, run_in_child
from aotc.ir.rounding import round_explicitly
from aotc.signature import Signature


def compile_engine(
    directory: Path,
    graph: EngineEntry,
    signature: Signature,
    architectures: tuple[str, ...],
    progress: Progress,
) -> tuple[EngineEntry, ...]:
    """Compile the graph in ``directory`` for ``architectures`` and write the engine beside it.

    A graph in float16 is written with its rounding made explicit as well, for the gate.

    Args:
        directory: The unsealed bundle, with the graph and its weights.
        graph: The graph's entry.
        signature: Inputs, outputs and profiles.
        architectures: Such as ``sm_86``.
        progress: Told what is being done.

    Raises:
        UsageError: A dim without a profile.
        RefusedError: TensorRT cannot compile this graph, or would compile another function; also if native
            code crashed.
        MissingError: The package is not installed.
    """
    payload = {
        "directory": str(directory),
        "graph": graph.file,
        "signature": signature.model_dump(mode="json"),
        "architectures": architectures,
        "profiles": profile_shapes(signature),
    }
    model = ir.load(directory / graph.file)
    refuse_traps(model)
    version = run_in_child("aotc.backends.tensorrt_rtx.compile:compile_in_child", payload, progress)
    requires = DeviceRequirements(tensorrt_rtx=version, architectures=architectures)
    engine = EngineEntry(file=ENGINE, kind="tensorrt-rtx", requires=requires)
    if not round_explicitly(model):
        return (engine,)
    (directory / ROUNDED).write_bytes(ir.to_proto(model).SerializeToString(deterministic=True))
    return EngineEntry(file=ROUNDED, kind="rounded", tensors=graph.tensors), engine
