"""Errors by module: a picture in the report, which fails no build."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models

from aotc import pipeline
from aotc.config import Options
from aotc.parity.inner_values import ProgramValues

OPTIONS = Options(threads=1)
TITLE = "Error by module"


def test_the_report_shows_them(tmp_path: Path) -> None:
    built = pipeline.build(tiny_models.mlp(), OPTIONS, tmp_path / "b")
    assert TITLE in (built.directory / "report.html").read_text(encoding="utf-8")
    assert not [note for note in built.notes if "by module" in note]


def test_a_program_that_does_not_run_alone_fails_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError("no kernel")

    monkeypatch.setattr(ProgramValues, "run", refuse)
    built = pipeline.build(tiny_models.mlp(), OPTIONS, tmp_path / "b")
    assert built.verdict.passed
    assert [note for note in built.notes if "by module" in note] == [
        "the report has no errors by module: the program does not run alone (NotImplementedError)"
    ]
    assert TITLE not in (built.directory / "report.html").read_text(encoding="utf-8")
