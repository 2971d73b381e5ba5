from __future__ import annotations

import hashlib
import random

import pytest

from aotc.bundle import digest
from aotc.bundle.digest import CHUNK, file_digest


def reference(content: bytes) -> str:
    parts = [hashlib.sha256(content[i : i + CHUNK]).digest() for i in range(0, len(content), CHUNK)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_is_the_documented_digest(size: int) -> None:
    content = random.Random(size).randbytes(size)
    assert file_digest(content) == reference(content)
    assert file_digest(memoryview(bytearray(content))) == reference(content)


def test_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    content = random.Random(1).randbytes(5 * CHUNK // 2)
    monkeypatch.setattr(digest, "usable_cores", lambda: 1)
    alone = file_digest(content)
    monkeypatch.setattr(digest, "usable_cores", lambda: 7)
    assert file_digest(content) == alone


def test_swapped_chunks_have_another_digest() -> None:
    content = bytes(CHUNK) + b"\1" * CHUNK
    assert file_digest(content) != file_digest(content[CHUNK:] + content[:CHUNK])
