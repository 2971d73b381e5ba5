"""Every golden case is run, executed and compared; ``--update-cases`` rewrites what the passes give now."""

from __future__ import annotations

from pathlib import Path

import pytest
from aotc_passes import PASSES

from aotc.testing import Case, check_golden, parse_cases, run_case, updated, write_cases

FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
CASES = [case for path in FILES for case in parse_cases(path)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.pass_name}: {case.title}")
def test_case(case: Case, update_cases: bool) -> None:
    outcome = run_case(case, PASSES)
    if update_cases:
        path = Path(__file__).parent / "cases" / f"{case.pass_name}.txt"
        cases = [updated(c, outcome) if c.title == case.title else c for c in parse_cases(path)]
        write_cases(path, cases)
    else:
        check_golden(case, outcome)
