"""The anonymous memory of a process and all its descendants, sampled while it runs.

Anonymous memory is what a process cannot give back: heap and private buffers. Files that are mapped count for
nothing, because the system can drop their pages at any time.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

INTERVAL = 0.01
"""Seconds between two samples; a peak that is shorter may be missed."""


def run_sampled(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> tuple[str, int, float]:
    """Run ``command`` and return its stdout, its tree's peak of anonymous memory in bytes, and its seconds.

    Raises:
        subprocess.CalledProcessError: The command failed; its stderr went to ours.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd, env=environment)
    sampler = _Sampler(process.pid)
    sampler.start()
    try:
        out, _ = process.communicate()
    finally:
        process.kill()
        sampler.stop()
    seconds = time.perf_counter() - start
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return out, sampler.peak, seconds


class _Sampler(threading.Thread):
    """Keeps the largest sum that it saw."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._pid = pid
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(INTERVAL):
            self.peak = max(self.peak, sum(anonymous_bytes(pid) for pid in tree_of(self._pid)))

    def stop(self) -> None:
        self._done.set()
        self.join()


def tree_of(pid: int) -> Iterator[int]:
    """Yield ``pid`` and its descendants; those that end meanwhile are left out."""
    yield pid
    children: list[str] = []
    # A process or thread may end at any moment between two of these reads.
    with contextlib.suppress(OSError):
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            with contextlib.suppress(OSError):
                children += (task / "children").read_text(encoding="ascii").split()
    for child in children:
        yield from tree_of(int(child))


def anonymous_bytes(pid: int | str = "self") -> int:
    """Return the resident anonymous memory of one process; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
