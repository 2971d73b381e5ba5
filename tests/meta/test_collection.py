"""Every test file is one that a plain ``pytest`` finds."""

from __future__ import annotations

import fnmatch

import pytest
from project_tree import ROOT, name, python_files


def test_no_folder_of_tests_is_left_out(pytestconfig: pytest.Config) -> None:
    skipped = pytestconfig.getini("norecursedirs")
    files = [p for p in python_files("tests") if p.name.startswith("test_")]
    assert len(files) > 80
    left_out = {
        name(path)
        for path in files
        for part in path.relative_to(ROOT).parts[:-1]
        if any(fnmatch.fnmatch(part, pattern) for pattern in skipped)
    }
    assert left_out == {"tests/example_project/tests/test_ranker.py"}, "it is run by another test"
