"""The sealed folder around an engine: what it holds, how it gets its place, how it is verified."""

from __future__ import annotations

from aotc.bundle.checked import Checked, beside, checked_path, read_checked, write_checked
from aotc.bundle.describe import Contents, Description, seal
from aotc.bundle.digest import file_digest
from aotc.bundle.entries import (
    DeviceRequirements,
    EngineEntry,
    FileEntry,
    GoldenCase,
    PassEntry,
    Refusal,
    Requirements,
    TensorEntry,
)
from aotc.bundle.names import ASSETS, REPORT, check_names, clash_in, part_fault
from aotc.bundle.parts import PartEntry, PartsContents, PartsDescription, seal_parts
from aotc.bundle.publish import Staging
from aotc.bundle.read import OpenBundle, OpenParts, open_any, open_bundle, single_graph, verify_bundle

__all__ = [
    "Staging",
    "open_any",
    "open_bundle",
    "single_graph",
    "verify_bundle",
    "OpenBundle",
    "OpenParts",
    "Description",
    "Contents",
    "PartsDescription",
    "PartsContents",
    "PartEntry",
    "EngineEntry",
    "Requirements",
    "DeviceRequirements",
    "TensorEntry",
    "PassEntry",
    "Refusal",
    "GoldenCase",
    "FileEntry",
    "seal",
    "seal_parts",
    "file_digest",
    "ASSETS",
    "REPORT",
    "check_names",
    "clash_in",
    "part_fault",
    "Checked",
    "beside",
    "checked_path",
    "read_checked",
    "write_checked",
]
