from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle import open_bundle, read
from aotc.bundle.digest import CHUNK
from aotc.errors import AotcError, CompatibilityError, IntegrityError, StorageError, UsageError


def test_hands_out_what_is_in_the_files(bundle: Path) -> None:
    with open_bundle(bundle) as opened:
        for name in (*opened.description.files, *opened.description.beside):
            assert bytes(opened.buffer(name)) == (bundle / name).read_bytes()
            assert opened.buffer(name).readonly


def test_buffers_outlive_close(bundle: Path) -> None:
    opened = open_bundle(bundle)
    kept = opened.buffer("weights")
    opened.close()
    assert bytes(kept) == bytes(range(64))
    with pytest.raises(UsageError, match="the bundle is closed: 'weights'"):
        opened.buffer("weights")


def test_an_unknown_name_is_an_error(bundle: Path) -> None:
    with open_bundle(bundle) as opened, pytest.raises(UsageError, match="has no such file: 'other'"):
        opened.buffer("other")


def test_large_and_empty_files(tmp_path: Path, publish: Callable[..., Any]) -> None:
    big = os.urandom(2 * CHUNK + 12345)
    publish(tmp_path / "m", files={"big": big, "empty": b""})
    with open_bundle(tmp_path / "m") as opened:
        assert bytes(opened.buffer("big")) == big
        assert bytes(opened.buffer("empty")) == b""


def test_the_folder_itself_may_be_a_link(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(bundle)
    with open_bundle(tmp_path / "current") as opened:
        assert opened.description.name == "tiny"


def test_no_descriptor_stays_open_after_a_refusal(bundle: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    (bundle / "weights").write_bytes(bytes(64))
    for _ in range(3):
        with pytest.raises(IntegrityError):
            open_bundle(bundle)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def flip(path: Path, at: int = 3) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def replace_by_link(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    path.rename(target)
    path.symlink_to(target)


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def swap(first: Path, second: Path) -> None:
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "flip": (lambda d: flip(d / "weights"), "the file 'weights' was changed: its digest is "),
    "flip engine": (lambda d: flip(d / "model.onnx"), "the file 'model.onnx' was changed"),
    "flip beside": (
        lambda d: flip(d / "golden/0.outputs.npz"),
        "the file 'golden/0.outputs.npz' was changed",
    ),
    "truncate": (lambda d: os.truncate(d / "weights", 10), "the file 'weights' has 10 bytes, not 64"),
    "append": (lambda d: os.truncate(d / "weights", 65), "the file 'weights' has 65 bytes, not 64"),
    "empty": (lambda d: os.truncate(d / "weights", 0), "the file 'weights' has 0 bytes, not 64"),
    "swap": (
        lambda d: swap(d / "golden/0.inputs.npz", d / "golden/0.outputs.npz"),
        "the file 'golden/0.inputs.npz' has 7 bytes, not 6",
    ),
    "delete": (lambda d: (d / "weights").unlink(), "the file 'weights' is missing"),
    "delete nested": (lambda d: (d / "golden/0.inputs.npz").unlink(), "'golden/0.inputs.npz' is missing"),
    "delete description": (lambda d: (d / "bundle.json").unlink(), "the file 'bundle.json' is missing"),
    "rename": (lambda d: (d / "weights").rename(d / "Weights"), "the file 'weights' is missing"),
    "extra": (lambda d: (d / "x.so").write_bytes(b""), "the file 'x.so' is not part of the bundle"),
    "extra hidden": (lambda d: (d / ".git").write_bytes(b""), "the file '.git' is not part of the bundle"),
    "extra nested": (lambda d: (d / "golden/x").write_bytes(b""), "the file 'golden/x' is not part of"),
    "case twin": (lambda d: (d / "WEIGHTS").write_bytes(b""), "the file 'WEIGHTS' is not part of"),
    "extra folder": (lambda d: (d / "empty").mkdir(), "the folder 'empty' is not part of the bundle"),
    "deep folder": (lambda d: (d / "golden/x").mkdir(), "'golden/x' is a folder inside a folder"),
    "escape": (lambda d: (d / "\x1b]8;;").write_bytes(b""), "the file '\\x1b]8;;' is not part of the bundle"),
    "not utf-8": (
        lambda d: Path(os.fsdecode(os.fsencode(d) + b"/\xff")).touch(),
        "the file '\\udcff' is",
    ),
    "symlink": (lambda d: replace_by_link(d / "weights"), "'weights' is a symbolic link"),
    "symlinked folder": (lambda d: replace_by_link(d / "golden"), "'golden' is a symbolic link"),
    "symlinked description": (
        lambda d: replace_by_link(d / "bundle.json"),
        "'bundle.json' is a symbolic link",
    ),
    "hard link": (
        lambda d: os.link(d / "weights", d.parent / "second"),
        "'weights' is hard-linked: it has 2 names",
    ),
    "hard-linked description": (
        lambda d: os.link(d / "bundle.json", d.parent / "second"),
        "'bundle.json' is hard-linked",
    ),
    "fifo": (lambda d: replace_by_fifo(d / "weights"), "'weights' is not a regular file"),
    "fifo description": (lambda d: replace_by_fifo(d / "bundle.json"), "'bundle.json' is not a regular file"),
    "socket": (lambda d: replace_by_socket(d / "weights"), "'weights' is not a regular file"),
    "folder": (lambda d: replace_by_folder(d / "weights"), "the file 'weights' is missing"),
}


@pytest.mark.parametrize("case", TAMPERING)
def test_tampering_is_refused(bundle: Path, case: str) -> None:
    tamper, text = TAMPERING[case]
    tamper(bundle)
    with pytest.raises(IntegrityError, match=re.escape(text)) as caught:
        open_bundle(bundle)
    assert caught.value.exit_code == 4
    assert caught.value.where is not None
    assert not re.search(r"0x[0-9a-f]{6}", str(caught.value))


def edit(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = bundle / "bundle.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "options": (lambda c: c["options"].update(validate="off"), "bundle.json was changed: its content has"),
    "digest": (lambda c: c.update(digest="0" * 64), "bundle.json was changed: its content has the digest"),
    "no digest": (lambda c: c.pop("digest"), "bundle.json: digest: Field required"),
    "unknown field": (lambda c: c.update(more=1), "bundle.json: more: Extra inputs are not permitted"),
    "text for a number": (
        lambda c: c["files"]["weights"].update(size="64"),
        "bundle.json: files.weights.size: Input should be a valid integer",
    ),
    "negative": (lambda c: c["files"]["weights"].update(size=-1), "bundle.json: files.weights.size: Input"),
    "bad sha": (lambda c: c["files"]["weights"].update(sha256="X"), "bundle.json: files.weights.sha256:"),
    "climbing name": (
        lambda c: c["files"].update({"../x": c["files"]["weights"]}),
        "the file name '../x' is not allowed in a bundle",
    ),
    "case twin": (
        lambda c: c["files"].update(WEIGHTS=c["files"]["weights"]),
        "the names 'WEIGHTS' and 'weights' are one on a file system that ignores case",
    ),
    "constant": (lambda c: c["options"].update(x=float("nan")), "NaN is not a JSON number"),
    "big number": (lambda c: c["options"].update(x=2**60), "bundle.json cannot be digested"),
    "version": (lambda c: c.update(schema_version=0), "bundle.json: schema_version: Input should be 1"),
    "signature": (
        lambda c: c["signature"]["inputs"][0].update(dtype=3),
        "bundle.json: signature.inputs.0.dtype: Input should be a valid string",
    ),
    "escape": (lambda c: c.update({"\x1b[2J": 1}), "bundle.json: \\x1b[2J: Extra inputs"),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edited_description_is_refused(bundle: Path, case: str) -> None:
    change, text = EDITS[case]
    edit(bundle, change)
    with pytest.raises(IntegrityError, match=re.escape(text)):
        open_bundle(bundle)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "bundle.json is not valid JSON"),
        (b"\xff\xfe", "bundle.json is not valid JSON"),
        (b"[" * 100_000, "bundle.json is nested too deep"),
        (b"[]", "bundle.json: the whole: Input should be an object"),
        (b'{"a": 1, "b": {"x": 1, "x": 2}}', "bundle.json has the key 'x' twice in one object"),
        (b'{"schema_version": 1, "schema_version": 1}', "bundle.json has the key 'schema_version' twice"),
        (b"1" * 10_000, "bundle.json is not valid JSON"),
    ],
)
def test_a_broken_description_is_refused(bundle: Path, text: bytes, message: str) -> None:
    (bundle / "bundle.json").write_bytes(text)
    with pytest.raises(IntegrityError, match=re.escape(message)):
        open_bundle(bundle)


def test_a_huge_description_is_refused_unread(bundle: Path) -> None:
    os.truncate(bundle / "bundle.json", 10 * 2**30)  # sparse
    with pytest.raises(IntegrityError, match=r"'bundle.json' has 10737418240 bytes, more than any real one"):
        open_bundle(bundle)


def test_a_newer_schema_is_a_compatibility_error(bundle: Path) -> None:
    edit(bundle, lambda c: c.update(schema_version=2, anything="new"))
    with pytest.raises(CompatibilityError, match="has schema_version 2; this aotc reads up to 1") as caught:
        open_bundle(bundle)
    assert caught.value.hint == "upgrade aotc on this machine, or build the bundle with this version"


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.write_bytes(b"")])
def test_no_folder_is_a_usage_error(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "none")
    with pytest.raises(UsageError, match="there is no bundle at "):
        open_bundle(tmp_path / "none")


def test_an_io_error_is_a_storage_error(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(file: int, size: int) -> None:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(read, "read_content", denied)
    with pytest.raises(StorageError, match=r"cannot read the bundle .*: Permission denied") as caught:
        open_bundle(bundle)
    assert caught.value.hint == f"check that this user may read and write {bundle}"


def test_no_single_flipped_bit_of_the_description_loads_as_something_else(bundle: Path) -> None:
    path = bundle / "bundle.json"
    content = path.read_bytes()
    with open_bundle(bundle) as opened:
        good = opened.description
    for at in range(0, len(content), 3):
        changed = bytearray(content)
        changed[at] ^= 1 << (at % 7)
        path.write_bytes(changed)
        try:
            # Only blanks and the `beside` part of the description may change without another digest.
            assert open_bundle(bundle).description == good
        except AotcError as error:
            assert isinstance(error, IntegrityError | CompatibilityError)  # noqa: PT017
