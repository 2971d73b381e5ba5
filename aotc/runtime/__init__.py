"""Loads and runs bundles; needs neither torch nor onnx."""

from __future__ import annotations

from aotc.runtime.cpu import cpu_flags
from aotc.runtime.engine import Engine
from aotc.runtime.loading import load, requirements_here

__all__ = ["load", "Engine", "requirements_here", "cpu_flags"]
