"""Opens a bundle: every byte is verified before anyone gets it, and those bytes are handed out."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from aotc.bundle.content import read_content, read_digest
from aotc.bundle.describe import Description
from aotc.bundle.entries import FileEntry
from aotc.bundle.listing import FOLDER_FLAGS, check_complete, check_regular, list_bundle, missing
from aotc.bundle.names import DESCRIPTION
from aotc.bundle.parse import LARGEST, parse_description
from aotc.bundle.parts import PartsDescription
from aotc.bundle.storage import storage_error
from aotc.errors import IntegrityError, UsageError

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not block us
_ATTEMPTS = 5
Keep = Callable[[str], bool]
"""Whether the content of the file of that name is held in memory."""


class _Opened:
    """A verified folder. Its buffers stay valid as long as anything refers to them, also after ``close``."""

    def __init__(self, path: Path, buffers: dict[str, memoryview]) -> None:
        self.path = path
        self._buffers = buffers

    def buffer(self, name: str) -> memoryview:
        """Return the content of the file ``name``: the very bytes that were verified, read-only.

        Raises:
            UsageError: The bundle is closed, or has no such file.
        """
        if name not in self._buffers:
            state = "has no such file" if self._buffers else "is closed"
            raise UsageError(f"the bundle {state}: {name!r}", slug="bundle")
        return self._buffers[name]

    def close(self) -> None:
        """Let go of the buffers; memory is freed when the last user of each is gone."""
        self._buffers = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OpenBundle(_Opened):
    """A verified bundle of one graph."""

    def __init__(self, path: Path, description: Description, buffers: dict[str, memoryview]) -> None:
        super().__init__(path, buffers)
        self.description = description


class OpenParts(_Opened):
    """A verified bundle of a model in parts, each of them open."""

    def __init__(
        self,
        path: Path,
        description: PartsDescription,
        buffers: dict[str, memoryview],
        parts: Mapping[str, OpenBundle],
    ) -> None:
        super().__init__(path, buffers)
        self.description = description
        self.parts = parts

    def close(self) -> None:
        """Let go of the buffers, those of the parts too."""
        super().close()
        for part in self.parts.values():
            part.close()


def open_bundle(directory: str | os.PathLike[str]) -> OpenBundle:
    """Open and verify a bundle of one graph as :func:`open_any` does.

    Raises:
        AotcError: As :func:`open_any` and :func:`single_graph`.
    """
    return single_graph(open_any(directory))


def single_graph(opened: OpenBundle | OpenParts) -> OpenBundle:
    """Return ``opened``, which must be of one graph.

    Raises:
        UsageError: It is of a model in parts; the hint names them.
    """
    if isinstance(opened, OpenBundle):
        return opened
    names = [os.fspath(opened.path / name) for name in opened.parts]
    raise UsageError(
        f"the bundle {opened.path} has the parts {', '.join(opened.parts)}",
        slug="parts",
        hint=f"name a part: {' or '.join(names)}",
    )


def open_any(directory: str | os.PathLike[str], keep: Keep = lambda _: True) -> OpenBundle | OpenParts:
    """Open and verify the bundle ``directory``: its description, and the size and digest of every file.

    ``directory`` itself may be a symbolic link (``current``); nothing inside may. Of a model in parts every
    part is verified, and that it is the bundle which was published as that part. Every file is verified, also
    one that ``keep`` does not want, of which there is no buffer.

    Raises:
        UsageError: There is no such folder.
        IntegrityError: A file is missing, extra, changed, or not a plain file; names it and what differs.
        CompatibilityError: The bundle was written by a newer aotc.
        StorageError: The operating system could not read it.
    """
    return _open_verified(Path(directory), keep)


def verify_bundle(directory: str | os.PathLike[str]) -> Description | PartsDescription:
    """Verify the bundle ``directory`` as :func:`open_any` does, without holding it in memory.

    Raises:
        AotcError: As :func:`open_any`.
    """
    return _open_verified(Path(directory), lambda _: False).description


def _open_verified(path: Path, keep: Keep) -> OpenBundle | OpenParts:
    left = _ATTEMPTS
    while True:
        left -= 1
        with _folder(path) as folder:
            try:
                return _verified(path, folder, keep)
            except (IntegrityError, FileNotFoundError) as error:
                # A publisher may replace the bundle under us: then the path names another folder, and we
                # read that one. A bundle that is really damaged is still in its place.
                if left and _was_replaced(path, folder):
                    continue
                if isinstance(error, OSError):
                    raise IntegrityError(f"the file {error.filename!r} vanished", where=str(path)) from error
                error.where = error.where or str(path)
                raise
            except OSError as error:
                raise storage_error(error, f"cannot read the bundle {path}", path) from error


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = f"aotc build SOURCE -o {path}"
        raise UsageError(f"there is no bundle at {path}", slug="bundle", hint=hint) from error
    except OSError as error:
        raise storage_error(error, f"cannot open the bundle {path}", path) from error
    try:
        yield folder
    finally:
        os.close(folder)


def _was_replaced(path: Path, folder: int) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(folder))
    except FileNotFoundError:
        return False


def _verified(path: Path, folder: int, keep: Keep) -> OpenBundle | OpenParts:
    description = _description(folder)
    if isinstance(description, Description):
        return _one_graph(path, folder, description, keep)
    buffers = _contents(folder, description.beside, description.parts, keep)
    parts = {n: _part(path / n, folder, entry.digest, keep) for n, entry in description.parts.items()}
    return OpenParts(path, description, buffers, parts)


def _description(folder: int) -> Description | PartsDescription:
    return parse_description(bytes(_read(folder, DESCRIPTION, None, keep=True)))


def _one_graph(path: Path, folder: int, description: Description, keep: Keep) -> OpenBundle:
    entries = {**description.files, **description.beside}
    return OpenBundle(path, description, _contents(folder, entries, (), keep))


def _part(path: Path, folder: int, digest: str, keep: Keep) -> OpenBundle:
    """Verify the part that lies at ``path``, in the open folder ``folder``."""
    inner = os.open(path.name, FOLDER_FLAGS, dir_fd=folder)
    try:
        description = _description(inner)
        if not isinstance(description, Description) or description.digest != digest:
            raise IntegrityError(
                f"the part {path.name!r} is another bundle: its digest is {description.digest}, not {digest}",
                hint="build or copy the whole bundle again",
            )
        return _one_graph(path, inner, description, keep)
    except IntegrityError as error:
        error.where = str(path / (error.where or ""))
        raise
    finally:
        os.close(inner)


def _contents(
    folder: int, entries: Mapping[str, FileEntry], parts: Collection[str], keep: Keep
) -> dict[str, memoryview]:
    """Verify every listed file, return what is kept; nothing but them and the parts may be there."""
    check_complete(list_bundle(folder, parts), [*entries, DESCRIPTION], parts)
    read = {name: _read(folder, name, entry, keep=keep(name)) for name, entry in entries.items()}
    return {name: content for name, content in read.items() if keep(name)}


def _read(folder: int, name: str, entry: FileEntry | None, *, keep: bool) -> memoryview:
    """Return the content of one file (if it is to be kept), compared with its entry if it has one."""
    file = _open(folder, name)
    try:
        size = os.fstat(file).st_size
        if entry is None and size > LARGEST:
            raise IntegrityError(f"{name!r} has {size} bytes, more than any real one ({LARGEST})")
        if entry is not None and size != entry.size:
            raise IntegrityError(f"the file {name!r} has {size} bytes, not {entry.size}")
        content, digest = read_content(file, size) if keep else (memoryview(b""), read_digest(file, size))
    finally:
        os.close(file)
    if entry is not None and digest != entry.sha256:
        raise IntegrityError(f"the file {name!r} was changed: its digest is {digest}, not {entry.sha256}")
    return content


def _open(folder: int, name: str) -> int:
    """Open one file for reading; no part of its name may be a link, not even for a moment."""
    inner, _, leaf = name.rpartition("/")
    holder = os.open(inner, FOLDER_FLAGS, dir_fd=folder) if inner else folder
    try:
        check_regular(name, os.stat(leaf, dir_fd=holder, follow_symlinks=False))
        file = os.open(leaf, _FILE_FLAGS, dir_fd=holder)
    except FileNotFoundError as error:
        raise missing(name) from error
    finally:
        if inner:
            os.close(holder)
    try:
        check_regular(name, os.fstat(file))
    except IntegrityError:
        os.close(file)
        raise
    return file
