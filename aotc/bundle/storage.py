"""Durable writes, and operating system errors as ``StorageError`` with the hint that helps."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from aotc.errors import StorageError
from aotc.text import shown_path

_FULL = {errno.ENOSPC, errno.EDQUOT}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


def sync(path: Path, mode: int | None = None) -> None:
    """Make the file or folder ``path`` durable; with ``mode``, after giving it that mode.

    Raises:
        OSError: It cannot be opened or flushed, or is a link.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if mode is not None:
            os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def storage_error(error: OSError, doing: str, folder: Path) -> StorageError:
    """Return the error to raise from ``error``.

    Args:
        error: What the operating system said.
        doing: What failed, as the start of the sentence: ``cannot publish dist/model``.
        folder: The folder whose space or permission the hint is about.
    """
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StorageError(f"{doing}: {reason}", hint=_hint(error.errno, folder))


def _hint(number: int | None, folder: Path) -> str | None:
    if number in _FULL:
        return f"free space on the file system of {shown_path(folder)}: {_free(folder)} left"
    if number in _DENIED:
        return f"check that this user may read and write {folder}"
    return None


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free / 2**20:.0f} MiB are"
    except OSError:
        return "little is"
