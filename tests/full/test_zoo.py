"""Every architecture of the zoo builds as docs/architectures.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from architectures import PAGE
from zoo import TIMM, ZOO
from zoo_build import ATTENTION, build

ROW = re.compile(r"^\| ([^|]+) \| (sdpa|eager) \| ([^|]+) \|", re.MULTILINE)
ROWS = {(m[1], m[2]): m[3] for m in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("name", [*ZOO, *TIMM])
def test_architecture(name: str, attention: str, tmp_path: Path) -> None:
    row = build(name, attention, tmp_path)
    assert ROWS.get((name, attention)) == (row.outcome if row is not None else None)


def test_the_page_lists_the_zoo() -> None:
    assert {name for name, _ in ROWS} == {*ZOO, *TIMM}
