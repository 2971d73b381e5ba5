"""The files of a Hugging Face folder that travel in the bundle: tokenizer, labels, preprocessing, licence."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import Any

from aotc.bundle.names import fault_of
from aotc.errors import RefusedError, UsageError

LARGEST = 64 * 2**20
"""Bytes of all files together."""
_PATTERNS = (
    *("*.json", "*.jsonl", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.bpe", "*.md"),
    *("licen[cs]e*", "notice*", "copying*", "readme*"),
)
_NEVER = ("*.index.json", "adapter_config.json", ".*")


def find_assets(*folders: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the files directly in ``folders`` that are neither weights nor code, and notes on others.

    Of two files with one name the first folder's travels.

    Raises:
        RefusedError: They are too large together, or one is a link to a file outside the model.
    """
    first: dict[str, Path] = {}
    for path in (path for folder in folders for path in sorted(folder.iterdir())):
        if path.is_file() and _travels(path.name):
            first.setdefault(path.name, path)
    left = [name for name in first if fault_of(name) is not None]
    assets = tuple(path for name, path in sorted(first.items()) if name not in left)
    for path in assets:
        _refuse_link_out(path)
    total = sum(path.stat().st_size for path in assets)
    if total > LARGEST:
        largest = max(assets, key=lambda path: path.stat().st_size)
        raise RefusedError(
            f"the files that travel with the model have {total / 2**20:.0f} MiB, more than "
            f"{LARGEST // 2**20} MiB in all; the largest is {largest.name}",
            slug="assets",
            where=str(folders[0]),
            hint="move what serving does not need out of the folder",
        )
    return assets, tuple(
        f"{name!r} does not travel in the bundle: not a name that one may have" for name in left
    )


def _travels(name: str) -> bool:
    lower = name.lower()
    return any(fnmatch.fnmatch(lower, p) for p in _PATTERNS) and not any(
        fnmatch.fnmatch(lower, p) for p in _NEVER
    )


def _refuse_link_out(path: Path) -> None:
    """A hub's cache links each file of a snapshot to its blobs; another link out of the folder is refused."""
    real, home = path.resolve(), path.parent.resolve()
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if not (real.is_relative_to(home) or real.is_relative_to(blobs)):
        raise RefusedError(
            f"{path.name} is a link to a file outside the folder",
            slug="assets",
            where=str(path),
            hint="replace the link by the file itself",
        )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds, empty if there is no such file.

    Raises:
        UsageError: Not JSON, or not an object.
    """
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path.name} is not valid JSON: {error}", slug="source", where=str(path)) from error
    if not isinstance(content, dict):
        raise UsageError(f"{path.name} must hold an object", slug="source", where=str(path))
    return content
