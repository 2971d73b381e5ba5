"""What a build or a measurement ran on: versions, machine, CPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from aotc import __version__
from aotc.runtime import cpu_flags

_PRODUCERS = ("torch", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy")


def producers() -> dict[str, str]:
    """Return the versions of everything that shapes the engine's bytes."""
    versions = {"aotc": __version__, "python": platform.python_version()}
    for name in _PRODUCERS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def environment() -> dict[str, str]:
    """Return the machine and versions of this run, for the figures."""
    return {
        **producers(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": str(os.cpu_count()),
        "cpu_flags": " ".join(cpu_flags()),
    }
