"""The files of a Hugging Face folder that travel in the bundle: tokenizer, labels, preprocessing, licence."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from aotc.bundle.names import fault_of
from aotc.errors import RefusedError

LARGEST = 64 * 2**20
"""Bytes of all files together."""
_PATTERNS = (
    *("*.json", "*.jsonl", "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.bpe", "*.md"),
    *("licen[cs]e*", "notice*", "copying*", "readme*"),
)
_NEVER = ("*.index.json", ".*")


def find_assets(folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the files directly in ``folder`` that are neither weights nor code, and notes on others.

    Raises:
        RefusedError: They are too large together, or one is a link to a file outside the model.
    """
    named = [path for path in sorted(folder.iterdir()) if path.is_file() and _travels(path.name)]
    assets = tuple(path for path in named if fault_of(path.name) is None)
    left = [path.name for path in named if path not in assets]
    for path in assets:
        _refuse_link_out(path, folder)
    total = sum(path.stat().st_size for path in assets)
    if total > LARGEST:
        largest = max(assets, key=lambda path: path.stat().st_size)
        raise RefusedError(
            f"the files that travel with the model have {total / 2**20:.0f} MiB, more than "
            f"{LARGEST // 2**20} MiB in all; the largest is {largest.name}",
            slug="assets",
            where=str(folder),
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


def _refuse_link_out(path: Path, folder: Path) -> None:
    """A hub's cache links each file of a snapshot to its blobs; another link out of the folder is refused."""
    real, home = path.resolve(), folder.resolve()
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if not (real.is_relative_to(home) or real.is_relative_to(blobs)):
        raise RefusedError(
            f"{path.name} is a link to a file outside the folder",
            slug="assets",
            where=str(path),
            hint="replace the link by the file itself",
        )
