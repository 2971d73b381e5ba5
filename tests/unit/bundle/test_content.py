from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from aotc.bundle.content import read_content, read_digest
from aotc.bundle.digest import CHUNK, file_digest
from aotc.errors import IntegrityError


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 2**20 + 1, CHUNK, 2 * CHUNK + 7])
def test_reads_the_bytes_and_digests_them(tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size)
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file:
        buffer, digest = read_content(file.fileno(), size)
        assert read_digest(file.fileno(), size) == digest == file_digest(content)
    assert bytes(buffer) == content
    assert buffer.readonly


def test_what_was_read_does_not_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * (CHUNK + 1))
    with path.open("r+b") as file:
        buffer, digest = read_content(file.fileno(), CHUNK + 1)
        file.write(b"b" * 10)
    os.truncate(path, 0)
    assert file_digest(buffer) == digest


@pytest.mark.parametrize("read", [read_content, read_digest])
def test_a_file_that_shrinks_meanwhile_is_refused(tmp_path: Path, read: object) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    with (tmp_path / "file").open("rb") as file:
        assert callable(read)
        with pytest.raises(IntegrityError, match="a file became shorter than 4 bytes while it was read"):
            read(file.fileno(), 4)
