"""Text that people read: without control characters, and with sizes in units."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path


def plain(text: str, keep: str = "") -> str:
    """Replace what is not printable: names from models must not steer a terminal or a page.

    Args:
        text: Any text.
        keep: Control characters that stay.
    """
    return "".join(c if c.isprintable() or c in keep else "?" for c in text)


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path as the user would write it here: relative to the working directory, if it is below it."""
    with contextlib.suppress(OSError, ValueError):  # no working directory any more; not below it
        return str(Path(path).relative_to(Path.cwd()))
    return os.fspath(path)


def size_text(size: int) -> str:
    """Return a number of bytes in KiB or MiB."""
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def operator_name(op_type: str) -> str:
    """Return the kebab-case name of an operator: ``RMSNormalization`` is ``rms-normalization``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", op_type).lower()
