"""The tree under test, and the bundle of the tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_bundle import build_once


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tiny model."""
    return build_once(tmp_path_factory)
