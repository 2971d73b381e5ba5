from __future__ import annotations

import errno
from pathlib import Path

import pytest

from aotc.bundle.storage import storage_error, sync


def test_no_space_says_how_much_is_left(tmp_path: Path) -> None:
    error = storage_error(OSError(errno.ENOSPC, ""), "cannot publish x", tmp_path)
    assert error.message == "cannot publish x: No space left on device"
    assert str(error.hint).startswith(f"free space on the file system of {tmp_path}: ")
    assert str(error.hint).endswith(" MiB are left")
    gone = storage_error(OSError(errno.EDQUOT, ""), "x", tmp_path / "gone")
    assert str(gone.hint).endswith("little is left")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_no_permission_says_where(tmp_path: Path, number: int) -> None:
    hint = f"check that this user may read and write {tmp_path}"
    assert storage_error(OSError(number, ""), "x", tmp_path).hint == hint


def test_other_errors_have_their_own_text(tmp_path: Path) -> None:
    error = storage_error(OSError("odd"), "cannot read x", tmp_path)
    assert error.message == "cannot read x: odd"
    assert error.hint is None


def test_sync_never_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(OSError, match="symbolic links"):
        sync(tmp_path / "link", 0o600)
    sync(tmp_path / "target", 0o600)
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o600
