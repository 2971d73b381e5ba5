"""The files of the repository that the tests of the project itself look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("aotc", "passes", "plugins")
ALL = (*SHIPPED, "tests", "samples", "benchmarks", "docs", ".ci")
_GENERATED = {"__pycache__", "results"}


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below folders of the repository, sorted."""
    return sorted(path for path in _files(folders) if path.suffix == ".py")


def markdown_files() -> list[Path]:
    """Return every Markdown file of the project."""
    return [*sorted(path for path in _files(ALL) if path.suffix == ".md"), ROOT / "README.md"]


def text_files() -> Iterator[tuple[Path, str]]:
    """Yield every text file of the project with its content."""
    for path in [*_files(ALL), *(p for p in ROOT.iterdir() if p.is_file())]:
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def name(path: Path) -> str:
    """Return the path of a file in the repository, for messages and test names."""
    return path.relative_to(ROOT).as_posix()


def _files(folders: tuple[str, ...]) -> Iterator[Path]:
    for folder in folders:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not _GENERATED & set(path.parts):
                yield path
