from __future__ import annotations

import os
from pathlib import Path

import pytest

from aotc.bundle import Checked, checked_path, read_checked, write_checked
from aotc.errors import IntegrityError, StorageError

DIGEST = "a" * 64


def result(**changes: object) -> Checked:
    return Checked(**{"digest": DIGEST, "verdict": "pass", "level": "executed", **changes})


@pytest.mark.parametrize("spelling", ["model", "model/", "./model", "x/../model"])
def test_lies_beside_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert checked_path(spelling) == tmp_path / "model.checked.json"


def test_round_trip(tmp_path: Path) -> None:
    assert read_checked(tmp_path / "model") is None
    first, second = result(verdict="fail"), result(details={"max_abs": 1e-6})
    for value in (first, second):
        assert write_checked(tmp_path / "model", value) == tmp_path / "model.checked.json"
        assert read_checked(tmp_path / "model") == value
    assert [path.name for path in tmp_path.iterdir()] == ["model.checked.json"]
    assert (tmp_path / "model.checked.json").stat().st_mode & 0o777 == 0o644


def test_vouches_only_for_the_digest_that_ran_and_passed() -> None:
    assert result().vouches_for(DIGEST)
    assert not result().vouches_for("b" * 64)
    assert not result(verdict="fail").vouches_for(DIGEST)
    assert not result(level="graph").vouches_for(DIGEST)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"digest": "x"}', "\xff"])
def test_anything_else_in_the_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.checked.json").write_text(text, encoding="latin-1")
    with pytest.raises(IntegrityError, match=r"model.checked.json is not a result of aotc check"):
        read_checked(tmp_path / "model")


def test_a_failed_write_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checked(tmp_path / "model", result())

    def full(handle: int) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot write .*model.checked.json: No space left") as caught:
        write_checked(tmp_path / "model", result(verdict="fail"))
    assert "free space on the file system of" in str(caught.value.hint)
    monkeypatch.undo()
    assert read_checked(tmp_path / "model") == result()
    assert [path.name for path in tmp_path.iterdir()] == ["model.checked.json"]
