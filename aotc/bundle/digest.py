"""Digests of files, made to use every core: sha256 over the sha256 digests of 8 MiB chunks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

CHUNK = 8 * 2**20
"""Bytes of one chunk; part of the format."""

_MOST_THREADS = 16
"""Memory bandwidth is used up long before this many threads hash."""


def usable_cores() -> int:
    """Return how many cores this process may use (a container's share, not the machine's)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def digest_by_chunks(size: int, chunk_digest: Callable[[int, int], bytes]) -> str:
    """Return the hex digest of ``size`` bytes, given the sha256 digest of each chunk.

    Args:
        size: Bytes in all.
        chunk_digest: Called with the start and end of each chunk, from several threads at once.
    """
    spans = [(start, min(start + CHUNK, size)) for start in range(0, size, CHUNK)]
    threads = min(usable_cores(), _MOST_THREADS, len(spans))
    if threads <= 1:
        parts = [chunk_digest(*span) for span in spans]
    else:
        # hashlib and reads let go of the interpreter lock, so plain threads work in parallel.
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(lambda span: chunk_digest(*span), spans))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def file_digest(content: bytes | bytearray | memoryview) -> str:
    """Return the hex digest of a file's ``content``: sha256 over its chunks' concatenated sha256 digests."""
    view = memoryview(content).cast("B")
    return digest_by_chunks(len(view), lambda start, end: hashlib.sha256(view[start:end]).digest())
