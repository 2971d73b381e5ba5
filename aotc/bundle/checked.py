"""``DIR.checked.json``: what ``aotc check`` found on this machine, naming the bundle's digest."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from aotc.bundle.entries import Sha256
from aotc.bundle.names import DESCRIPTION
from aotc.bundle.parse import LARGEST
from aotc.bundle.storage import storage_error, sync
from aotc.errors import IntegrityError


class Checked(BaseModel):
    """The result of one ``aotc check``.

    ``verdict`` counts only for the bundle whose digest is ``digest``, and only ``level`` ``executed`` says
    that the engine ran. ``details`` holds figures and the machine, for people and reports.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    digest: Sha256
    verdict: Literal["pass", "fail"]
    level: Literal["executed", "graph"]
    details: dict[str, JsonValue] = Field(default_factory=dict)

    def vouches_for(self, digest: str) -> bool:
        """Return whether the bundle with this digest ran here and passed."""
        return self.digest == digest and self.verdict == "pass" and self.level == "executed"


def checked_path(directory: str | os.PathLike[str]) -> Path:
    """Return where the result for the bundle ``directory`` lies."""
    return beside(directory, "checked.json")


def beside(directory: str | os.PathLike[str], suffix: str) -> Path:
    """Return the path of a file or folder beside the bundle ``directory``: ``DIR.<suffix>``."""
    path = Path(directory).resolve()  # the same place through a `current` link
    name, place = path.name, path.parent
    if (place / DESCRIPTION).is_file():  # a part: nothing may be written into the bundle that it lies in
        name, place = f"{place.name}.{name}", place.parent
    return place / f"{name}.{suffix}"


def read_checked(directory: str | os.PathLike[str]) -> Checked | None:
    """Return the recorded result, or None if there is none.

    Raises:
        IntegrityError: The file is not what ``aotc check`` writes.
        StorageError: It cannot be read.
    """
    path = checked_path(directory)
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
        return Checked.model_validate_json(text, strict=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, f"cannot read {path}", path.parent) from error
    except ValidationError as error:
        raise IntegrityError(
            f"{path.name} is not a result of aotc check",
            where=str(path),
            hint=f"aotc check {directory}, which writes it anew",
        ) from error


def write_checked(directory: str | os.PathLike[str], result: Checked) -> Path:
    """Record ``result`` for the bundle ``directory``, whole or not at all, and return the file's path.

    Raises:
        StorageError: It cannot be written.
    """
    path = checked_path(directory)
    try:
        _replace(path, (result.model_dump_json(indent=2) + "\n").encode())
    except OSError as error:
        raise storage_error(error, f"cannot write {path}", path.parent) from error
    return path


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - wraps the descriptor of mkstemp
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)
