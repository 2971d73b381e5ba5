"""Several publishers, readers during a publication, and publishers that die in the middle."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle import Staging, leftovers, open_bundle

Publish = Callable[..., Any]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def marker(bundle: Path) -> Any:
    with open_bundle(bundle) as opened:
        return opened.description.options.get("marker")


def leave_dead_staging(destination: Path) -> Path:
    dead = leftovers.hidden_name(destination, "staging")
    dead.mkdir()
    (dead / "weights").write_bytes(b"half")
    return dead


def test_the_next_publisher_clears_dead_staging_but_not_a_living_one(bundle: Path, publish: Publish) -> None:
    dead = leave_dead_staging(bundle)
    other = bundle.parent / f".model.staging-{'x' * 32}"  # not a name of ours
    other.mkdir()
    with Staging(bundle) as living:
        publish(bundle, options={"marker": "new"})
        assert living.path.exists()
    assert not dead.exists()
    assert names(bundle.parent) == [other.name, "model"]


def test_without_locks_no_staging_folder_is_taken_for_dead(
    bundle: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(handle: int, operation: int) -> None:
        raise OSError(errno.EBADF, "a network file system")

    monkeypatch.setattr(leftovers.fcntl, "flock", no_locks)
    dead = leave_dead_staging(bundle)
    publish(bundle, options={"marker": "new"})
    assert marker(bundle) == "new"
    assert dead.exists()


def test_a_bundle_left_aside_comes_back(bundle: Path) -> None:
    bundle.rename(leftovers.hidden_name(bundle, "aside"))
    with Staging(bundle):
        assert marker(bundle) is None
    assert names(bundle.parent) == ["model"]


def run_threads(targets: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def guarded(target: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                target()
            except BaseException as error:  # noqa: BLE001 - re-raised in the test's thread below
                errors.append(error)

        return run

    threads = [threading.Thread(target=guarded(target)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_of_concurrent_publishers_one_wins_whole(tmp_path: Path, publish: Publish, way: str) -> None:
    def publisher(index: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(5):
                publish(tmp_path / "model", files={"weights": bytes([index]) * 64}, options={"marker": index})

        return run

    run_threads([publisher(index) for index in range(6)])
    with open_bundle(tmp_path / "model") as opened:
        index = opened.description.options["marker"]
        assert bytes(opened.buffer("weights")) == bytes([index]) * 64
    assert names(tmp_path) == ["model"]


def test_readers_never_see_a_mixture(bundle: Path, publish: Publish) -> None:
    done = threading.Event()

    def reader() -> None:
        while not done.is_set():
            with open_bundle(bundle) as opened:
                index = opened.description.options.get("marker")
                expected = bytes(range(64)) if index is None else bytes([index]) * 64
                assert bytes(opened.buffer("weights")) == expected

    def publisher() -> None:
        try:
            for index in range(40):
                publish(bundle, files={"weights": bytes([index]) * 64}, options={"marker": index})
        finally:
            done.set()

    run_threads([reader, reader, publisher])


CHANGING_CALLS = {"mkdir", "open", "fsync", "fchmod", "flock", "rename", "rmdir", "unlink", "close"}


@pytest.fixture
def fork_single_threaded() -> None:
    if threading.active_count() > 1:  # pragma: no cover - a plugin's thread
        pytest.skip("forking with other threads is not safe")


def killed_publishers(publish: Publish, destination: Path) -> Iterator[int]:
    """Publish again and again, each time in a process that dies before the next of its system calls."""
    for count in range(1, 1000):
        child = os.fork()
        if child == 0:
            die_at(count)
            publish(destination, options={"marker": "new"})
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            return
        yield count


def die_at(count: int) -> None:
    left = count

    def profile(frame: Any, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and called.__module__ in ("posix", "fcntl"):
            counts = called.__name__ in CHANGING_CALLS
        else:
            counts = event in ("call", "return") and frame.f_code.co_name == "exchange"
        left -= counts
        if counts and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(profile)


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory where there is one: a hundred publications wait for the disk otherwise."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def test_a_publisher_killed_anywhere_leaves_the_old_bundle_or_the_new_one(
    fast_folder: Path, publish: Publish, way: str, fork_single_threaded: None
) -> None:
    bundle = fast_folder / "model"
    publish(bundle)
    seen, deaths, gaps = set(), 0, 0
    for deaths in killed_publishers(publish, bundle):
        if not bundle.exists():
            gaps += 1
            with Staging(bundle):  # what the next build does first
                pass
        seen.add(marker(bundle))
        publish(bundle)
        assert names(bundle.parent) == ["model"], deaths
    assert deaths > 40
    assert seen == {None, "new"}
    assert (gaps > 0) == (way == "aside")
