"""The option that rewrites the golden cases: ``pytest tests/passes --update-cases``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-cases", action="store_true", help="rewrite the 'after' parts of all cases")


@pytest.fixture(scope="session")
def update_cases(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-cases", default=False))
