"""The emit stage of ``ort-cpu``."""

from __future__ import annotations

from pathlib import Path

from aotc.backends.ort_cpu import PORTABLE
from aotc.bundle import EngineEntry
from aotc.child import Progress, run_in_child


def specialise(directory: Path, portable: EngineEntry, progress: Progress) -> EngineEntry:
    """Add the session file for this machine; ONNX Runtime's optimiser runs in a child process.

    Args:
        directory: The unsealed bundle, with the portable session and its weights.
        portable: The portable session's entry.
        progress: Told what is being done.
    """
    assert portable.file == PORTABLE
    payload = {"directory": str(directory), "portable": portable.model_dump(mode="json")}
    entry = run_in_child("aotc.backends.ort_cpu.optimise:emit_in_child", payload, progress)
    return EngineEntry.model_validate(entry)
