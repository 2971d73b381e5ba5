"""From the canonical graph to engine files: the one place that knows every target's compiler."""

from __future__ import annotations

from pathlib import Path

from aotc.backends.ort_cpu.build import specialise
from aotc.backends.tensorrt_rtx.build import compile_engine
from aotc.bundle import EngineEntry
from aotc.child import Progress
from aotc.signature import Signature
from aotc.target import Target


def build_engines(
    directory: Path, portable: EngineEntry, signature: Signature, target: Target, progress: Progress
) -> tuple[EngineEntry, ...]:
    """Let the compiler of ``target`` make its engine files of the canonical graph in ``directory``.

    Args:
        directory: The unsealed bundle.
        portable: The entry of the graph.
        signature: Inputs, outputs and profiles.
        target: What the engine runs on.
        progress: Told what is being done.

    Raises:
        RefusedError: The target cannot run this graph.
        AotcError: As the compiler.
    """
    if target.name == "tensorrt-rtx":
        return compile_engine(directory, portable, signature, target.architectures, progress)
    return (specialise(directory, portable, progress),)
