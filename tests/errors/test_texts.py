"""The whole text of every error, in ``texts.txt``: what, where, and the command that helps.

Each case makes the error happen, in the way that a user would, and the command line then prints it. After a
change of a text: ``pytest tests/errors --update-errors``, and read what changed.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from error_cases import CASES, Case
from project_tree import python_files

from aotc import errors
from aotc.cli import failures

TEXTS = Path(__file__).with_name("texts.txt")
_HEAD = re.compile(r"^== (.+)$", re.MULTILINE)
_CLASSES = {name for name, kind in vars(errors).items() if isinstance(kind, type)} | {"ParityError"}
_OWN = {"InternalError": "internal", "ParityError": "parity"}
_VERSION = re.compile(r"\b\d+\.\d+\.\d+(?:\+\w+)?")
_REPORT = re.compile(r"\S*/aotc-report-\w+\.txt")


def texts() -> dict[str, str]:
    """Return the expected texts by title."""
    parts = _HEAD.split(TEXTS.read_text(encoding="utf-8"))[1:]
    return {title: text.strip("\n") for title, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("case", CASES.values(), ids=[title.replace(" ", "-") for title in CASES])
def test_the_whole_text(
    case: Case,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    shutil.copy(tiny / "model.py", tmp_path)
    shutil.copytree(tiny / "bundle", tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class, name and text are compared below
        case.make()
    stages = capfd.readouterr().err
    code = failures.report(caught.value, [], None)
    printed = capfd.readouterr().err.rstrip("\n")
    name = re.match(r"error\[([a-z-]+)\]: ", printed)
    assert name is not None, printed
    assert name[1] == case.slug
    assert code == getattr(errors, case.kind, errors.VerdictError).exit_code
    for text in (stages, printed):
        assert "Traceback" not in text
        assert not re.search(r"0x[0-9a-f]{6}", text), text
        assert "terminate called" not in text
        assert str(tmp_path) not in text, text
    shown = _VERSION.sub("VERSION", _REPORT.sub("REPORT", printed))
    assert tempfile.gettempdir() + os.sep not in shown, shown
    if request.config.getoption("--update-errors"):
        _update(case.title, shown)
    assert texts().get(case.title) == shown


def _update(title: str, text: str) -> None:
    known = {**texts(), title: text} if TEXTS.exists() else {title: text}
    kept = (f"== {name}\n{known[name]}\n" for name in CASES if name in known)
    TEXTS.write_text("\n".join(kept), encoding="utf-8")


def test_every_text_has_a_case() -> None:
    assert list(texts()) == list(CASES)


def raised() -> set[tuple[str, str]]:
    """Return (class, slug) of every error in the code; the class is empty where only a run tells it."""
    found = set()
    for path in python_files("aotc", "passes", "plugins"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            function = node.func.id if isinstance(node.func, ast.Name) else ""
            kind = function if function in _CLASSES else ""
            given = next((k.value for k in node.keywords if k.arg == "slug"), None)
            if isinstance(given, ast.Constant):
                found.add((kind, str(given.value)))
            elif kind and given is None:
                found.add((kind, _OWN.get(kind) or getattr(errors, kind).slug))
    return found


def test_every_class_and_every_name_has_a_case() -> None:
    # How the command line shows an InternalError; and what CI's file says of a signal, which the terminal
    # gets as one word (tests/cli/test_signals.py).
    wanted = raised() - {("AotcError", "internal"), ("AotcError", "interrupted")}
    assert len(wanted) > 50
    known = {(case.kind, case.slug) for case in CASES.values()}
    assert wanted - known - {("", slug) for _, slug in known} == set()
    assert {kind for kind, _ in known} == _CLASSES - {"AotcError"}
