"""Two folders swap their names in one step, where the file system can do that."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Callable
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    """Return the C library's ``renameat2``; Python's ``os`` has no form of it."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]  # ctypes has no types for foreign functions


def exchange(first: Path, second: Path) -> bool:
    """Swap the names of two existing paths atomically.

    Returns:
        False if this system or file system cannot do it; nothing was changed then.

    Raises:
        OSError: It can, but the paths do not allow it.
    """
    function = _renameat2()
    if function is None:
        return False
    if function(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))
