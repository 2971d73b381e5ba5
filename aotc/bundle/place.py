"""Puts a finished folder where the bundle belongs, and refuses to put it over anything but a bundle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aotc.bundle.exchange import exchange
from aotc.bundle.leftovers import discard, hidden_name
from aotc.bundle.names import DESCRIPTION
from aotc.bundle.storage import sync
from aotc.errors import UsageError
from aotc.text import shown_path


def refuse_foreign(destination: Path) -> None:
    """Check that publishing to ``destination`` would destroy nothing but a bundle.

    Raises:
        UsageError: Something that is not a bundle is there, or a bundle with files that are not its own.
    """
    reason = _foreign(destination)
    if reason:
        raise UsageError(
            f"{shown_path(destination)} {reason}; it was left as it is",
            slug="destination",
            hint="choose another destination, or move away what is there",
        )


def _foreign(destination: Path) -> str | None:
    if destination.is_symlink():
        return "is a symbolic link"
    if _listed_names(destination.parent) is not None:
        return f"lies in the bundle {shown_path(destination.parent)}"
    if not destination.exists():
        return None
    if not destination.is_dir():
        return "is a file"
    if not any(destination.iterdir()):
        return None
    listed = _listed_names(destination)
    if listed is None:
        return f"is a folder without a {DESCRIPTION} of ours"
    leaves = (p for p in destination.rglob("*") if p.is_symlink() or not p.is_dir())
    extra = sorted({p.relative_to(destination).as_posix() for p in leaves} - listed)
    return f"holds {extra[0]!r}, which is not part of the bundle there" if extra else None


def _listed_names(folder: Path) -> set[str] | None:
    """Return the names in the ``bundle.json`` of ``folder``, of any version; None if it is not one.

    A damaged bundle may be replaced, so this reads far less strictly than loading does.
    """
    try:
        content: Any = json.loads((folder / DESCRIPTION).read_bytes())
        if isinstance(content["schema_version"], int) and isinstance(content["digest"], str):
            listed = content["files"] if "files" in content else _names_of_parts(folder, content["parts"])
            return {DESCRIPTION, *listed, *content["beside"]}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return None


def _names_of_parts(folder: Path, parts: Iterable[str]) -> set[str]:
    return {f"{part}/{name}" for part in parts for name in _listed_names(folder / part) or ()}


def put_in_place(staging: Path, destination: Path) -> None:
    """Give the folder ``staging`` the name ``destination``; the bundle that was there is removed.

    The caller holds the lock of the parent. At every moment the destination is the old bundle or the new one,
    whole; without an atomic exchange there is an instant without any, which ``leftovers.recover`` repairs
    after a crash.

    Raises:
        OSError: A rename failed or could not be made durable; the old bundle is in its place.
    """
    old = _swap_in(staging, destination)
    try:
        sync(destination.parent)
    except OSError:
        _swap_back(staging, destination, old)
        raise
    if old is not None:
        discard(old)


def _swap_in(staging: Path, destination: Path) -> Path | None:
    """Rename, and return where the old bundle is now, if there was one."""
    if not destination.exists() or not any(destination.iterdir()):
        staging.rename(destination)
        return None
    if exchange(staging, destination):
        return staging
    old = hidden_name(destination, "aside")
    try:
        destination.rename(old)
        staging.rename(destination)
    except BaseException:  # also an interrupt between the two
        if old.exists() and not os.path.lexists(destination):
            old.rename(destination)
        raise
    return old


def _swap_back(staging: Path, destination: Path, old: Path | None) -> None:
    if old == staging:
        exchange(staging, destination)
        return
    destination.rename(staging)
    if old is not None:
        old.rename(destination)
