"""What every pass has: three names that agree, a docstring with its sections, cases, a refusal."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import aotc_passes
import pytest
from aotc_passes import PASSES

from aotc.rewrite import Pass
from aotc.rewrite.catalogue import SECTIONS, sections, to_markdown
from aotc.rewrite.registry import parse_pass
from aotc.testing import parse_cases, write_cases

CASES = Path(__file__).parent / "cases"
FOLDER = Path(str(aotc_passes.__file__)).parent
each_pass = pytest.mark.parametrize("cls", PASSES, ids=lambda cls: cls.name())


@each_pass
def test_file_class_and_name_agree(cls: type[Pass]) -> None:
    kebab = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
    assert cls.name() == kebab
    assert cls.__module__.rpartition(".")[2] == kebab.replace("-", "_")


def test_every_file_is_one_registered_pass() -> None:
    files = {path.stem for path in FOLDER.glob("*/*.py") if not path.stem.startswith("_")}
    assert files == {cls.__module__.rpartition(".")[2] for cls in PASSES}


@each_pass
def test_is_a_frozen_dataclass_whose_text_names_it(cls: type[Pass]) -> None:
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert parse_pass(str(cls()), PASSES) == cls()
    assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(cls))


@each_pass
def test_docstring_has_the_sections(cls: type[Pass]) -> None:
    found = sections(cls)
    assert tuple(found) == SECTIONS
    assert all(found.values())


@each_pass
def test_has_cases_and_among_them_a_refusal(cls: type[Pass]) -> None:
    cases = parse_cases(CASES / f"{cls.name()}.txt")
    assert len(cases) >= 5
    assert len({case.title for case in cases}) == len(cases)
    assert sum(case.after is None for case in cases) >= 1
    assert all(case.rtol <= 5e-3 and case.atol <= 5e-3 for case in cases)


def test_every_case_file_belongs_to_a_pass() -> None:
    assert {path.stem for path in CASES.glob("*.txt")} == {cls.name() for cls in PASSES}


@each_pass
def test_case_files_are_written_as_they_are_read(cls: type[Pass], tmp_path: Path) -> None:
    path = CASES / f"{cls.name()}.txt"
    write_cases(tmp_path / path.name, parse_cases(path))
    assert (tmp_path / path.name).read_text() == path.read_text()


def test_the_catalogue_is_up_to_date(update_cases: bool) -> None:
    path = FOLDER.parent / "README.md"
    text = to_markdown(PASSES)
    if update_cases:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run pytest tests/passes --update-cases"
