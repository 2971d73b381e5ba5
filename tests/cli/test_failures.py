"""Any exception as its text and its exit code, without the command that raised it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click
import pytest

from aotc.cli import failures
from aotc.errors import InternalError, RefusedError


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.Abort(), 130, "interrupted\n"),
        (failures.Terminated(143), 143, "interrupted\n"),
        (MemoryError(), 5, "error[environment]: there is not enough memory\n"),
        (PermissionError(13, "Permission denied", "/here"), 74, "error[storage]: Permission denied: /here\n"),
        (click.exceptions.Exit(0), 0, ""),
        (
            RefusedError("no", where="evil\x1b[31m\u202ename", hint="b\udcff"),
            3,
            "error[refused]: no\n  where: evil?[31m?name\n  fix: b?\n",
        ),
    ],
)
def test_text_and_code(
    error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failures.report(error, [], None) == code
    assert capsys.readouterr() == ("", text)


def test_a_file_that_was_ours_is_not_named(capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(failures.tempfile, "gettempdir", lambda: str(tmp_path))
    error = OSError(28, "No space left on device", str(tmp_path / "aotc-x" / "000.npz"))
    assert failures.report(error, [], None) == 74
    assert capsys.readouterr().err == (
        "error[storage]: cannot use the temporary folder: No space left on device\n"
        "  fix: set TMPDIR to another folder\n"
    )


def test_a_bug_where_no_report_can_be_written(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(failures.tempfile, "tempdir", "/nowhere")
    assert failures.report(InternalError("the pass x failed"), ["--json"], None) == 70
    out, err = capsys.readouterr()
    assert err == (
        "error[internal]: the pass x failed\n"
        "  fix: this is a bug of aotc, please report it with the traceback that aotc --debug ... shows\n"
    )
    assert json.loads(out)["error"]["name"] == "internal"


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    error = SyntaxError("invalid syntax", ("model.py", 3, 1, "", 3, 2))
    assert failures.source_place(error) == "model.py:3"
    os.chdir(tmp_path)
