"""The gate on a mutant of each kind of every model, and on right graphs, as docs/gate.md says."""

from __future__ import annotations

import re

import pytest
from gate_models import MODELS
from gate_report import PAGE, try_all

SURVIVORS = re.compile(r"^- (.+`): ", re.MULTILINE)

pytestmark = pytest.mark.full


def test_the_gate() -> None:
    results, builds = try_all(list(MODELS), each=1)
    right = [*builds, *(alarm for result in results for alarm in result.right)]
    assert len(right) >= 200
    assert [alarm for alarm in right if not alarm.passed] == []
    tried = [trial for result in results for trial in result.trials]
    assert sum(trial.outcome == "caught" for trial in tried) >= 300
    known = set(SURVIVORS.findall(PAGE.read_text(encoding="utf-8")))
    survivors = {f"{t.model}, {t.kind}, `{t.where}`" for t in tried if t.outcome == "survived"}
    assert survivors <= known


def test_the_page_lists_the_models() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in MODELS)
