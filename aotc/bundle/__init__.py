"""The sealed folder around an engine: what it holds, how it gets its place, how it is verified."""

from __future__ import annotations

from aotc.bundle.checked import Checked, checked_path, read_checked, write_checked
from aotc.bundle.describe import Contents, Description, seal
from aotc.bundle.digest import file_digest
from aotc.bundle.entries import (
    EngineEntry,
    FileEntry,
    GoldenCase,
    PassEntry,
    Refusal,
    Requirements,
    TensorEntry,
)
from aotc.bundle.names import ASSETS, check_names
from aotc.bundle.publish import Staging
from aotc.bundle.read import OpenBundle, open_bundle, verify_bundle

__all__ = [
    "Staging",
    "open_bundle",
    "verify_bundle",
    "OpenBundle",
    "Description",
    "Contents",
    "EngineEntry",
    "Requirements",
    "TensorEntry",
    "PassEntry",
    "Refusal",
    "GoldenCase",
    "FileEntry",
    "seal",
    "file_digest",
    "ASSETS",
    "check_names",
    "Checked",
    "checked_path",
    "read_checked",
    "write_checked",
]
