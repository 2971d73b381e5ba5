"""Builds a bundle in a hidden folder beside its destination and puts it there in one step, or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

from aotc.bundle.content import read_digest
from aotc.bundle.describe import Contents, Description, seal
from aotc.bundle.entries import FileEntry
from aotc.bundle.leftovers import claim, discard, hidden_name, locked, recover
from aotc.bundle.listing import list_bundle
from aotc.bundle.names import DESCRIPTION, check_names
from aotc.bundle.parts import PartsContents, PartsDescription, seal_parts
from aotc.bundle.place import put_in_place, refuse_foreign
from aotc.bundle.read import verify_bundle
from aotc.bundle.storage import storage_error, sync
from aotc.errors import IntegrityError, UsageError
from aotc.text import shown_path

_ATTEMPTS = 5
_OF_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


class Staging:
    """A folder in which a bundle is made: ``with Staging("dist/model") as staging: ...``.

    Write the files below ``staging.path``, then call :meth:`publish`. Leaving the block in any other way
    removes the folder and leaves the destination as it was. Of two builds to one destination the last wins.

    Raises:
        UsageError: The destination exists and is not a bundle.
        StorageError: The folder cannot be made, or a file in it cannot be written.
    """

    def __init__(self, destination: str | os.PathLike[str]) -> None:
        self.destination = Path(os.path.abspath(destination))  # noqa: PTH100 - a link there is refused, not followed
        self._path: Path | None = None
        self._claim = -1

    @property
    def path(self) -> Path:
        """The staging folder, on the same file system as the destination.

        Raises:
            UsageError: Outside the ``with`` block, or after publishing.
        """
        if self._path is None:
            raise UsageError("this staging folder is not open", slug="bundle")
        return self._path

    @property
    def _shown(self) -> str:
        return shown_path(self.destination)

    def __enter__(self) -> Staging:
        if not self.destination.name:
            raise UsageError(f"{self._shown} cannot be a bundle", slug="destination")
        parent = self.destination.parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            with locked(parent):
                recover(self.destination)
                refuse_foreign(self.destination)
            self._create()
        except OSError as error:
            raise storage_error(error, f"cannot build in {shown_path(parent)}", parent) from error
        return self

    def _create(self) -> None:
        for attempt in range(_ATTEMPTS):
            path = hidden_name(self.destination, "staging")
            path.mkdir(mode=0o700)
            try:
                self._claim = claim(path, must_lock=False)
            except OSError:  # another publisher's recovery took the folder before its lock was ours
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            self._path = path
            return

    def entries(self, *names: str) -> dict[str, FileEntry]:
        """Return size and digest of files in the staging folder, for the description.

        Raises:
            IntegrityError: A name that a bundle cannot have.
            StorageError: A file cannot be read.
        """
        check_names(names)
        try:
            return {name: _entry(self.path / name) for name in names}
        except OSError as error:
            raise storage_error(error, f"cannot read the new bundle {self._shown}", self.path) from error

    def publish(self, contents: Contents) -> Description:
        """Seal, verify and put the bundle in place; returns its description.

        ``bundle.json`` is written last. Everything is made durable and read back before the rename, so what
        gets the destination's name has been verified by the code that will load it.

        Raises:
            IntegrityError: The folder does not hold what ``contents`` lists.
            UsageError: Something that is not a bundle appeared at the destination.
            StorageError: Writing failed; the old bundle stands.
        """
        description = seal(contents)
        self._publish(description)
        return description

    def publish_parts(self, contents: PartsContents) -> PartsDescription:
        """Seal a folder whose parts were published into it, verify all, and put it in place.

        Raises:
            AotcError: As :meth:`publish`.
        """
        description = seal_parts(contents)
        self._publish(description, contents.parts)
        return description

    def _publish(self, description: Description | PartsDescription, parts: Collection[str] = ()) -> None:
        try:
            with (self.path / DESCRIPTION).open("xb") as file:
                file.write(description.to_json())
            self._settle(parts)
            self._verify(description)
            with locked(self.destination.parent):
                refuse_foreign(self.destination)
                put_in_place(self.path, self.destination)
        except OSError as error:
            parent = self.destination.parent
            raise storage_error(error, f"cannot publish {self._shown}", parent) from error
        self._path = None

    def _settle(self, parts: Collection[str]) -> None:
        """Give every file and folder its final mode and make it durable, leaves first; parts are already."""
        listing = list_bundle(self._claim, parts)  # refuses links and devices before anything opens one
        for name in sorted(listing.files):
            sync(self.path / name, 0o644)
        for name in sorted(listing.folders):
            sync(self.path / name, 0o755)
        sync(self.path, 0o755)

    def _verify(self, description: Description | PartsDescription) -> None:
        try:
            if verify_bundle(self.path) != description:
                raise IntegrityError(f"{DESCRIPTION} reads back differently from what was written")
        except IntegrityError as error:
            error.where = f"the new bundle for {self._shown}"  # its hidden folder is about to vanish
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        path, self._path = self._path, None
        if path is not None:
            discard(path)
        if self._claim >= 0:
            os.close(self._claim)
            self._claim = -1
        if isinstance(error, OSError) and self._is_of_staging(error, path):
            parent = self.destination.parent
            raise storage_error(error, f"cannot write the new bundle {self._shown}", parent) from error

    @staticmethod
    def _is_of_staging(error: OSError, path: Path | None) -> bool:
        """Return whether the block failed at our folder, and not at a file of the caller's own."""
        inside = path is not None and Path(os.fsdecode(error.filename or "")).is_relative_to(path)
        return inside or error.errno in _OF_STORAGE


def _entry(path: Path) -> FileEntry:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(handle).st_size
        return FileEntry(size=size, sha256=read_digest(handle, size))
    finally:
        os.close(handle)
