"""Every error that aotc raises on purpose, made to happen: one function for each case."""

from __future__ import annotations

from error_cases import bundles, files, folders, models, native, sources  # noqa: F401 - they register
from error_cases.registry import CASES, Case

__all__ = ["CASES", "Case"]
