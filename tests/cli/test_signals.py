"""Interrupted: the exit code says by which signal; no staging folder, no scratch folder, no child is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from commandline import argv

WAIT = """

def {name}({args}):
    import time
    open("here", "w").close()
    time.sleep(60)
"""


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv("build", name, "-o", "new"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def of_session(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess, PermissionError):
            continue
    return found


def has_child(session: int) -> bool:
    try:
        return any("aotc.child" in process.cmdline() for process in of_session(session))
    except psutil.NoSuchProcess:
        return False


def assert_clean(folder: Path, process: subprocess.Popen[str], before: set[str]) -> None:
    assert of_session(process.pid) == []
    left = {path.name for path in folder.iterdir()} - before - {"here", "__pycache__"}
    assert {name for name in left if not name.endswith(".lock")} == set()


@pytest.mark.parametrize(
    ("name", "args", "number", "code"),
    [("more_inputs", "", signal.SIGINT, 130), ("accuracy", "run", signal.SIGTERM, 143)],
)
def test_in_the_users_own_code(
    folder: Path, source, name: str, args: str, number: signal.Signals, code: int
) -> None:
    file = source(end=WAIT.format(name=name, args=args))
    before = {path.name for path in folder.iterdir()}
    process = start(folder, file)
    wait_until(lambda: (folder / "here").exists(), process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
    assert_clean(folder, process, before)


@pytest.mark.parametrize(
    ("send", "number", "code"),
    [
        (os.kill, signal.SIGTERM, 143),
        (os.killpg, signal.SIGINT, 130),
    ],
    ids=["SIGTERM", "Ctrl-C, which reaches the child as well"],
)
def test_while_a_child_works(
    folder: Path, send: Callable[[int, int], None], number: signal.Signals, code: int
) -> None:
    before = {path.name for path in folder.iterdir()}
    process = start(folder, "model.py")
    wait_until(lambda: has_child(process.pid), process)
    send(process.pid, number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
    assert_clean(folder, process, before)
