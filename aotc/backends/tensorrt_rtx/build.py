"""The emit stage of ``tensorrt-rtx``: the canonical graph becomes an engine, in a child process."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from aotc.backends.tensorrt_rtx import ENGINE
from aotc.backends.tensorrt_rtx.profiles import profile_shapes
from aotc.backends.tensorrt_rtx.traps import refuse_traps
from aotc.bundle import DeviceRequirements, EngineEntry
from aotc.child import Progress, run_in_child
from aotc.signature import Signature


def compile_engine(
    directory: Path,
    graph: EngineEntry,
    signature: Signature,
    architectures: tuple[str, ...],
    progress: Progress,
) -> EngineEntry:
    """Compile the graph in ``directory`` for ``architectures`` and write the engine beside it.

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
    refuse_traps(ir.load(directory / graph.file))
    version = run_in_child("aotc.backends.tensorrt_rtx.compile:compile_in_child", payload, progress)
    requires = DeviceRequirements(tensorrt_rtx=version, architectures=architectures)
    return EngineEntry(file=ENGINE, kind="tensorrt-rtx", requires=requires)
