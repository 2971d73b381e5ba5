from __future__ import annotations

import ctypes
import errno
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle import exchange as module
from aotc.bundle.exchange import exchange


def test_swaps_two_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system has no atomic exchange")
    assert (tmp_path / "a/b").exists()
    assert (tmp_path / "b/a").exists()


def test_an_error_that_is_not_about_support_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        exchange(tmp_path / "a", tmp_path / "b")
    assert (caught.value.filename, caught.value.filename2) == (str(tmp_path / "a"), str(tmp_path / "b"))


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def unsupported(*args: Any) -> int:
        ctypes.set_errno(number)
        return -1

    monkeypatch.setattr(module, "_renameat2", lambda: unsupported)
    assert exchange(tmp_path / "a", tmp_path / "b") is False


def test_a_c_library_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module._renameat2.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: object())
    assert exchange(tmp_path / "a", tmp_path / "b") is False
    module._renameat2.cache_clear()
