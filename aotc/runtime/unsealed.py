"""Loads an engine file of a bundle that is still being built, exactly as the sealed bundle will load it."""

from __future__ import annotations

import mmap
from pathlib import Path

from aotc.bundle import Contents, EngineEntry, seal
from aotc.runtime.engine import Engine
from aotc.runtime.session import check_interface, create_session


def load_unsealed(
    directory: Path, contents: Contents, entry: EngineEntry, *, threads: int | None = None
) -> Engine:
    """Load one engine file from the folder that this process has just written.

    Only the digests are not verified: nothing has been sealed yet. The gate uses it for every engine file,
    whichever this machine would choose.
    """
    weights = map_files(directory, entry)
    session = create_session(_map(directory / entry.file), weights, threads=threads)
    check_interface(session, contents.signature)
    return Engine(seal(contents), entry.file, session, weights, f"{entry.kind}: not sealed yet")


def map_files(directory: Path, entry: EngineEntry) -> dict[str, memoryview]:
    """Return the files that the external tensors of an engine file lie in, by location."""
    files = sorted({tensor.file for tensor in entry.tensors})
    return {name: _map(directory / name) for name in files}


def _map(path: Path) -> memoryview:
    if path.stat().st_size == 0:
        return memoryview(b"")
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
