"""What a bundle's folder really holds, read without following a single link."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from aotc.errors import IntegrityError

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Listing:
    """Names of the files and folders of a bundle, relative to it."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


def list_bundle(folder: int, parts: Collection[str] = ()) -> Listing:
    """Return what the open folder ``folder`` (a file descriptor) holds.

    Args:
        folder: The bundle.
        parts: Folders in it that are bundles themselves: they are listed, and not what they hold.

    Raises:
        IntegrityError: A link, a file with a second name, a device, or folders nested too deep.
    """
    listing = Listing()
    for name, status in _entries(folder):
        if not stat.S_ISDIR(status.st_mode):
            listing.files.add(check_regular(name, status))
            continue
        listing.folders.add(name)
        if name in parts:
            continue
        inner = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        try:
            for leaf, leaf_status in _entries(inner):
                listing.files.add(check_regular(f"{name}/{leaf}", leaf_status))
        finally:
            os.close(inner)
    return listing


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.stat(follow_symlinks=False)


def check_regular(name: str, status: os.stat_result) -> str:
    """Return ``name`` if ``status`` is that of a regular file with one name.

    Raises:
        IntegrityError: It is something else.
    """
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        raise IntegrityError(f"{name!r} is a symbolic link", hint="copy the bundle with its files, not links")
    if not stat.S_ISREG(mode):
        kind = "a folder inside a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise IntegrityError(f"{name!r} is {kind}")
    if status.st_nlink != 1:
        raise IntegrityError(
            f"{name!r} is hard-linked: it has {status.st_nlink} names, so it can change from elsewhere",
            hint="copy the bundle instead of linking its files",
        )
    return name


def missing(name: str) -> IntegrityError:
    """Return the error to raise for a listed file that is not there."""
    return IntegrityError(f"the file {name!r} is missing", hint="build or copy the bundle again")


def check_complete(listing: Listing, expected: Iterable[str], parts: Collection[str] = ()) -> None:
    """Compare what is there with the files and parts that ``bundle.json`` lists.

    Raises:
        IntegrityError: A missing file or part, an extra file, or an extra folder (an empty one too).
    """
    wanted = set(expected)
    if lost := sorted(wanted - listing.files):
        raise missing(lost[0])
    if extra := sorted(listing.files - wanted):
        raise IntegrityError(
            f"the file {extra[0]!r} is not part of the bundle", hint=f"remove {extra[0]!r}, or build again"
        )
    if lost := sorted(set(parts) - listing.folders):
        raise IntegrityError(f"the part {lost[0]!r} is missing", hint="build or copy the bundle again")
    folders = {name.partition("/")[0] for name in wanted if "/" in name} | set(parts)
    if extra := sorted(listing.folders - folders):
        raise IntegrityError(
            f"the folder {extra[0]!r} is not part of the bundle", hint=f"remove {extra[0]!r}, or build again"
        )
