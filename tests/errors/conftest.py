"""The option that writes the texts anew, and a bundle to work on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bundle import build_once


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-errors", action="store_true", help="write tests/errors/texts.txt anew")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tiny model."""
    return build_once(tmp_path_factory)
