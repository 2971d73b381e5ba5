"""What publishers leave beside a destination while they work, and how the next one clears it.

Names beside the destination ``model``:

``.model.staging-<32 hex>``  a bundle in the making; its publisher holds a lock on the folder
``.model.aside-<32 hex>``    the old bundle, between the two renames of the way without an atomic exchange
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from aotc.bundle.storage import sync

_LOG = logging.getLogger(__name__)


def hidden_name(destination: Path, kind: str) -> Path:
    """Return a fresh path of this kind (``staging``, ``aside``) beside ``destination``."""
    return destination.with_name(f".{destination.name}.{kind}-{uuid.uuid4().hex}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold a lock on ``folder``, so that only one publisher at a time renames in it; yields its descriptor.

    The lock is on the folder itself: it leaves no file behind and ends with its process.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Network file systems cannot lock a folder. Each single rename is atomic there too, so what is at
        # risk is only the recovery of a bundle while another publisher is between its two renames.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def recover(destination: Path) -> None:
    """Undo what a killed publisher left: a bundle still aside comes back, dead staging folders go.

    The caller holds the lock of the parent.
    """
    asides = _hidden(destination, "aside")
    if asides and not os.path.lexists(destination):
        asides.pop().rename(destination)
        sync(destination.parent)
    for folder in asides:
        discard(folder)
    for folder in _hidden(destination, "staging"):
        with contextlib.suppress(OSError):  # its publisher is alive, or just removed it
            handle = claim(folder, must_lock=True)
            discard(folder)
            os.close(handle)


def claim(staging: Path, *, must_lock: bool) -> int:
    """Lock a staging folder as its publisher does, and return the descriptor that holds the lock.

    Args:
        staging: The folder.
        must_lock: Whether a file system without locks is an error. Without a lock no one may conclude that
            the folder's publisher is dead, but a publisher can go on: then nobody clears its folder.

    Raises:
        OSError: Another process holds it, or the folder is gone.
    """
    handle = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _lock_now(handle, must_lock)
        if not os.path.samestat(os.fstat(handle), staging.stat()):
            raise FileNotFoundError(f"{staging.name} was replaced")
    except OSError:
        os.close(handle)
        raise
    return handle


def _lock_now(handle: int, must_lock: bool) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        if must_lock:
            raise


def _hidden(destination: Path, kind: str) -> list[Path]:
    """Return the hidden folders of this kind, oldest first."""
    pattern = re.compile(rf"\.{re.escape(destination.name)}\.{kind}-[0-9a-f]{{32}}")
    found = [p for p in destination.parent.iterdir() if pattern.fullmatch(p.name) and not p.is_symlink()]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def discard(folder: Path) -> None:
    """Remove a folder of ours; a failure is logged, because the next run tries again."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        _LOG.warning("could not remove %s: %s", folder, error)
