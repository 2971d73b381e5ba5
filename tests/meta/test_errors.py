"""Every error says what, where and the fix, and has an exit code; tests/errors has the whole texts."""

from __future__ import annotations

import inspect
import re

import pytest
from project_tree import ROOT, python_files

from aotc import errors
from aotc.errors import AotcError, InternalError
from aotc.parity.failure import ParityError

EXIT_CODES = {
    "AotcError": 1,
    "CompatibilityError": 4,
    "InputError": 2,
    "IntegrityError": 4,
    "MissingError": 5,
    "ParityError": 1,
    "RefusedError": 3,
    "StorageError": 74,
    "UnexecutedError": 5,
    "UsageError": 2,
    "VerdictError": 1,
}
_CLASSES = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if cls.__module__ == errors.__name__
]
OWN = [cls for cls in _CLASSES if issubclass(cls, AotcError)]
each = pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.__name__)


def test_the_exit_codes() -> None:
    assert {cls.__name__: cls.exit_code for cls in [*OWN, ParityError]} == EXIT_CODES


def test_classes_of_errors_are_in_one_file() -> None:
    pattern = re.compile(r"^class (\w+)\(.*(?:Error|Exception)\b.*\):", re.MULTILINE)
    found = {
        match[1]
        for path in python_files("aotc", "passes", "plugins")
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
        if path != ROOT / "aotc/errors.py"
    }
    # It carries a verdict; _Done is no error, it ends a run early. Other classes belong in aotc/errors.py.
    assert found == {"ParityError", "_Done"}


@each
def test_the_text_has_what_where_and_fix(cls: type[AotcError]) -> None:
    error = cls("the weight is shared", where="conv1 (a.py:3)", hint="split it")
    assert str(error) == error.render()
    assert error.render() == (
        f"error[{cls.slug}]: the weight is shared\n  where: conv1 (a.py:3)\n  fix: split it"
    )
    assert cls("short").render() == f"error[{cls.slug}]: short"
    assert cls("named", slug="attention").render() == "error[attention]: named"


def test_a_bug_is_not_an_expected_error() -> None:
    assert not issubclass(InternalError, AotcError)
    assert InternalError.exit_code == 70
