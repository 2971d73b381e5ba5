from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle import Contents, Staging, leftovers, open_bundle, place
from aotc.bundle import publish as publish_module
from aotc.errors import AotcError, IntegrityError, StorageError, UsageError

Publish = Callable[..., Any]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def marker(bundle: Path) -> Any:
    with open_bundle(bundle) as opened:
        return opened.description.options.get("marker")


def test_publishes_a_new_bundle_below_new_folders(tmp_path: Path, publish: Publish) -> None:
    description = publish(tmp_path / "dist/sub/model")
    assert names(tmp_path / "dist/sub") == ["model"]
    with open_bundle(tmp_path / "dist/sub/model") as opened:
        assert opened.description == description


def test_modes_do_not_depend_on_the_umask(tmp_path: Path, publish: Publish) -> None:
    old = os.umask(0o077)
    try:
        publish(tmp_path / "model")
    finally:
        os.umask(old)
    for path in [tmp_path / "model", *(tmp_path / "model").rglob("*")]:
        wanted = 0o755 if path.is_dir() else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_the_staging_folder_is_private_and_beside_the_destination(tmp_path: Path) -> None:
    with Staging(tmp_path / "model") as staging:
        assert staging.path.parent == tmp_path
        assert staging.path.name.startswith(".model.staging-")
        assert stat.S_IMODE(staging.path.stat().st_mode) == 0o700
    assert names(tmp_path) == []
    with pytest.raises(UsageError, match="this staging folder is not open"):
        _ = staging.path


def test_replaces_an_old_bundle(bundle: Path, publish: Publish, way: str) -> None:
    publish(bundle, files={"more": b"1"}, options={"marker": "new"})
    assert marker(bundle) == "new"
    assert names(bundle.parent) == ["model"]


def test_replaces_a_damaged_bundle_and_an_empty_folder(
    bundle: Path, tmp_path: Path, publish: Publish, way: str
) -> None:
    (bundle / "weights").write_bytes(b"damaged")
    (tmp_path / "empty").mkdir()
    for destination in (bundle, tmp_path / "empty"):
        publish(destination, options={"marker": "new"})
        assert marker(destination) == "new"
    assert names(tmp_path) == ["empty", "model"]


def test_open_readers_keep_the_old_bytes(bundle: Path, publish: Publish, way: str) -> None:
    with open_bundle(bundle) as opened:
        publish(bundle, files={"weights": bytes(64)})
        assert bytes(opened.buffer("weights")) == bytes(range(64))


def make_file(path: Path) -> None:
    path.write_text("mine")


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("mine")


def make_foreign_json(path: Path) -> None:
    path.mkdir()
    (path / "bundle.json").write_text('{"name": "a JavaScript thing"}')


def make_link(path: Path) -> None:
    (path.parent / "real").mkdir()
    path.symlink_to("real")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


FOREIGN: dict[str, tuple[Callable[[Path], None], str]] = {
    "file": (make_file, "is a file; it was left as it is"),
    "folder": (make_folder, "is a folder without a bundle.json of ours; it was left as it is"),
    "json": (make_foreign_json, "is a folder without a bundle.json of ours"),
    "link": (make_link, "is a symbolic link; it was left as it is"),
    "dangling": (make_dangling_link, "is a symbolic link"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_refuses_to_replace_what_is_not_a_bundle(tmp_path: Path, publish: Publish, case: str) -> None:
    make, text = FOREIGN[case]
    make(tmp_path / "model")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(UsageError, match=text) as caught:
        publish(tmp_path / "model")
    assert caught.value.hint == "choose another destination, or move away what is there"
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_refuses_to_remove_a_users_file_with_the_old_bundle(bundle: Path, publish: Publish) -> None:
    (bundle / "golden" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds 'golden/notes.txt', which is not part of the bundle there"):
        publish(bundle)
    assert (bundle / "golden" / "notes.txt").read_text() == "mine"


def test_refuses_what_appears_during_the_build(tmp_path: Path, contents: Callable[..., Contents]) -> None:
    with pytest.raises(UsageError, match="is a file"), Staging(tmp_path / "model") as staging:
        write_and_publish(staging, contents, before=lambda: make_file(tmp_path / "model"))
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_text() == "mine"


def write_and_publish(
    staging: Staging, contents: Callable[..., Contents], before: Callable[[], object], **files: bytes
) -> None:
    for name in contents().files | contents().beside:
        (staging.path / name).parent.mkdir(exist_ok=True)
        (staging.path / name).write_bytes(bytes(64))
    listed = {
        "files": staging.entries(*contents().files),
        "beside": staging.entries(*contents().beside),
    }
    before()
    staging.publish(contents(**listed))


def fail_half_way(staging: Staging, error: BaseException) -> None:
    (staging.path / "golden").mkdir()
    (staging.path / "weights").write_bytes(b"half")
    raise error


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), IntegrityError("x")])
def test_an_exception_leaves_the_old_bundle_and_nothing_else(bundle: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), Staging(bundle) as staging:
        fail_half_way(staging, error)
    assert marker(bundle) is None
    assert names(bundle.parent) == ["model"]


def damage(path: Path) -> None:
    path.write_bytes(b"\1" * 64)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: damage(p / "weights"), "the file 'weights' was changed"),
        (lambda p: (p / "weights").unlink(), "the file 'weights' is missing"),
        (lambda p: (p / "extra").touch(), "the file 'extra' is not part of the bundle"),
        (lambda p: (p / "link").symlink_to("/etc/passwd"), "'link' is a symbolic link"),
        (lambda p: os.mkfifo(p / "fifo"), "'fifo' is not a regular file"),
        (lambda p: (p / "empty").mkdir(), "the folder 'empty' is not part of the bundle"),
    ],
)
def test_a_staging_folder_that_does_not_hold_its_contents_is_not_published(
    bundle: Path, contents: Callable[..., Contents], change: Callable[[Path], object], text: str
) -> None:
    with pytest.raises(IntegrityError, match=text), Staging(bundle) as staging:
        write_and_publish(staging, contents, before=lambda: change(staging.path))
    assert marker(bundle) is None
    assert names(bundle.parent) == ["model"]


STEPS = [
    (os, "fsync", "cannot publish .*: No space left on device"),
    (os, "fchmod", "cannot publish .*: No space left on device"),
    (place, "exchange", "cannot publish .*: No space left on device"),
    (publish_module, "read_digest", "cannot read the new bundle .*: No space left on device"),
]


@pytest.mark.parametrize(("module", "name", "text"), STEPS, ids=[name for _, name, _ in STEPS])
def test_a_full_disk_leaves_the_old_bundle(
    bundle: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, text: str
) -> None:
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(module, name, full)
        with pytest.raises(StorageError, match=text) as caught:
            publish(bundle, options={"marker": "new"})
    assert caught.value.exit_code == 74
    assert "free space on the file system of" in str(caught.value.hint)
    assert marker(bundle) is None
    assert names(bundle.parent) == ["model"]


def test_a_failed_rename_puts_the_old_bundle_back(
    bundle: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "exchange", lambda first, second: False)
    rename = Path.rename

    def fail_for_staging(self: Path, target: Path) -> Path:
        if ".staging-" in self.name:
            raise OSError(errno.EIO, "io")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_staging)
    with pytest.raises(StorageError, match=r"cannot publish .*: Input/output error"):
        publish(bundle, options={"marker": "new"})
    assert marker(bundle) is None
    assert names(bundle.parent) == ["model"]


def test_a_rename_that_cannot_be_made_durable_is_undone(
    bundle: Path, tmp_path: Path, publish: Publish, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path) -> None:
        raise OSError(errno.EIO, "io")

    with monkeypatch.context() as patch:
        patch.setattr(place, "sync", broken)
        for destination in (bundle, tmp_path / "new"):
            with pytest.raises(StorageError, match=r"cannot publish .*: Input/output error"):
                publish(destination, options={"marker": "new"})
    assert marker(bundle) is None
    assert names(tmp_path) == ["model"]


def test_an_interrupt_between_the_two_renames_puts_the_old_bundle_back(
    bundle: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "exchange", lambda first, second: False)
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        result = rename(self, target)
        if ".aside-" in target.name:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish(bundle, options={"marker": "new"})
    assert marker(bundle) is None
    assert names(bundle.parent) == ["model"]


def test_an_error_while_writing_a_file_is_a_storage_error(tmp_path: Path) -> None:
    text = "cannot write the new bundle .*: "
    with pytest.raises(StorageError, match=text + "No such file"), Staging(tmp_path / "model") as staging:
        (staging.path / "no" / "folder").write_bytes(b"")
    with pytest.raises(StorageError, match=text + "No space left"), Staging(tmp_path / "model"):
        raise OSError(errno.ENOSPC, "full")
    with pytest.raises(FileNotFoundError), Staging(tmp_path / "model"):
        (tmp_path / "source.py").read_bytes()  # a file of the caller's own: its error stays what it is
    assert names(tmp_path) == []


def test_a_parent_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "dist").touch()
    with pytest.raises(StorageError, match=r"cannot build in .*: File exists"), Staging(tmp_path / "dist/x"):
        pass


def test_the_root_is_no_destination() -> None:
    with pytest.raises(UsageError, match="/ cannot be a bundle"), Staging("/"):
        pass


def test_bundle_json_comes_last_and_everything_is_synced_before_the_rename(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "model")
    log: list[str] = []
    fsync, exchange = os.fsync, place.exchange

    def record_fsync(handle: int) -> None:
        log.append(Path(f"/proc/self/fd/{handle}").readlink().name.partition(".staging-")[0])
        fsync(handle)

    def record_exchange(first: Path, second: Path) -> bool:
        log.append("exchange")
        return exchange(first, second)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(place, "exchange", record_exchange)
    publish(tmp_path / "model")
    synced, after = log[: log.index("exchange")], log[log.index("exchange") + 1 :]
    files = ["0.inputs.npz", "0.outputs.npz", "bundle.json", "model.onnx", "parity.json", "weights"]
    assert sorted(synced) == sorted([*files, "golden", ".model"])
    assert synced[-1] == ".model"
    assert after == [tmp_path.name]


def test_an_old_bundle_that_cannot_be_removed_is_reported_and_does_not_matter(
    bundle: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(leftovers.shutil, "rmtree", denied)
    publish(bundle, options={"marker": "new"})
    assert marker(bundle) == "new"
    assert "could not remove" in caplog.text
    monkeypatch.undo()
    publish(bundle)
    assert names(bundle.parent) == ["model"]


def test_a_new_bundle_may_have_any_newer_description(bundle: Path, publish: Publish) -> None:
    content = json.loads((bundle / "bundle.json").read_bytes())
    (bundle / "bundle.json").write_text(json.dumps(content | {"schema_version": 9}))
    with pytest.raises(AotcError, match="schema_version 9"):
        open_bundle(bundle)
    publish(bundle)
    assert marker(bundle) is None
