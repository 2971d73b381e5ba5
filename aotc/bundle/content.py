"""How the content of a bundle's file comes into memory."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os

from aotc.bundle.digest import digest_by_chunks
from aotc.errors import IntegrityError

_STEP = 2**18
"""Bytes of one read: small enough to be hashed while they are still in a core's cache."""


def read_content(file: int, size: int) -> tuple[memoryview, str]:
    """Read the open file ``file`` once; return its ``size`` bytes, read-only, and their digest.

    The bytes go into private memory and are hashed there, so nothing that happens to the file afterwards can
    reach them. A private mapping would be no protection: who writes into the file still changes its pages.

    Raises:
        IntegrityError: The file became shorter meanwhile.
    """
    view = memoryview(_anonymous(size))[:size]
    digest = digest_by_chunks(size, lambda start, end: _read_chunk(file, start, view[start:end]))
    return view.toreadonly(), digest


def read_digest(file: int, size: int) -> str:
    """Read the open file ``file`` once without keeping it; return the digest of its ``size`` bytes.

    Raises:
        IntegrityError: The file became shorter meanwhile.
    """
    return digest_by_chunks(
        size, lambda start, end: _read_chunk(file, start, memoryview(bytearray(end - start)))
    )


def _read_chunk(file: int, start: int, into: memoryview) -> bytes:
    """Fill ``into`` with the file's bytes from ``start`` on and return their sha256 digest."""
    digest = hashlib.sha256()
    done = 0
    while done < len(into):
        part = into[done : done + _STEP]
        count = os.preadv(file, [part], start + done)
        if not count:
            raise IntegrityError(f"a file became shorter than {start + len(into)} bytes while it was read")
        digest.update(part[:count])
        done += count
    return digest.digest()


def _anonymous(size: int) -> mmap.mmap | bytearray:
    if size < mmap.PAGESIZE:
        return bytearray(size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # only faster: a kernel may be built without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
