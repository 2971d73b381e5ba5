"""Loads and runs bundles; needs neither torch nor onnx."""

from __future__ import annotations

from aotc.runtime.cpu import cpu_flags
from aotc.runtime.engine import Engine
from aotc.runtime.loading import load, load_for_check, load_opened, requirements_here
from aotc.runtime.parts import Engines

__all__ = ["load", "load_opened", "load_for_check", "Engine", "Engines", "requirements_here", "cpu_flags"]
