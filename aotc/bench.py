"""Times callables side by side, in turns, so that a busy machine hits all of them alike."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc.runtime import cpu_flags

Feeds = Mapping[str, np.ndarray[Any, Any]]
Run = Callable[[Feeds], object]

_CPUINFO = Path("/proc/cpuinfo")
_POLL = 0.005
_LONGEST_WAIT = 0.25
_ASLEEP = 0.1
_BUSY = 0.5
_TELLING_FLAGS = (
    *("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)


@dataclasses.dataclass(frozen=True)
class Timing:
    """What a runner took, in seconds: the median, the 95th percentile and the fastest of ``count`` runs."""

    count: int
    p50: float
    p95: float
    best: float


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a runner has no timing."""

    reason: str


def summarise(seconds: Sequence[float]) -> Timing:
    """Return the statistics of at least one run; percentiles are interpolated."""
    p50, p95 = np.quantile(seconds, [0.5, 0.95])
    return Timing(len(seconds), float(p50), float(p95), float(min(seconds)))


def ratios(outcomes: Mapping[str, Timing | Failure], base: str) -> dict[str, float]:
    """Return each runner's median over the median of ``base``, for those that have a timing."""
    unit = outcomes[base]
    if isinstance(unit, Failure) or unit.p50 == 0.0:
        return {}
    return {name: o.p50 / unit.p50 for name, o in outcomes.items() if isinstance(o, Timing)}


def measure(
    runners: Mapping[str, Run],
    feeds: Feeds,
    *,
    repeat: int,
    settle: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing | Failure]:
    """Time every runner on the same inputs, interleaved: A B C A B C ...

    A turn is a wait, a run that is not timed, and a timed one. Without the wait the threads of the runner
    before would still be spinning on the cores; without the first run, data would have to come out of memory.

    Args:
        runners: By name, in the order of the turns. One that raises has a failure and no more turns.
        feeds: What each is given.
        repeat: Timed runs of each, at least 1.
        settle: Waits until the threads of other runners are asleep; default :func:`until_asleep`.
        clock: Returns seconds.
    """
    wait = settle or until_asleep
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    failures: dict[str, Failure] = {}
    with _without_collector():
        for _ in range(repeat):
            for name in [name for name in runners if name not in failures]:
                wait()
                try:
                    seconds[name].append(_turn(runners[name], feeds, clock))
                except Exception as error:  # noqa: BLE001 - whatever a runner raises is its result here
                    failures[name] = Failure(one_line(error))
    return {name: failures.get(name) or summarise(taken) for name, taken in seconds.items()}


def _turn(run: Run, feeds: Feeds, clock: Callable[[], float]) -> float:
    run(feeds)
    start = clock()
    run(feeds)
    return clock() - start


def one_line(error: BaseException) -> str:
    """Return the kind of ``error`` and the first line of its text, without addresses of objects."""
    lines = str(error).strip().splitlines() or [""]
    return re.sub(r" at 0x[0-9a-f]+", "", f"{type(error).__name__}: {lines[0]}")[:200]


def until_asleep() -> None:
    """Wait until this process uses no processor time, at most a quarter of a second.

    ONNX Runtime's threads spin for about 50 ms after a run and OpenMP's for about 10 ms: whoever runs next
    would have to share the cores with them.
    """
    end = time.perf_counter() + _LONGEST_WAIT
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(_POLL)
        if time.process_time() - before < _ASLEEP * _POLL:
            return


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the garbage collector out of the timed runs."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where a measurement was made; times of different machines say nothing about each other."""

    cpu: str
    cores: int
    flags: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line with the instruction sets that kernels are chosen by."""
        telling = [flag for flag in _TELLING_FLAGS if flag in self.flags]
        return f"{self.cpu}, {self.cores} cores, {' '.join(telling) or 'no vector flags known'}"


def machine() -> Machine:
    """Describe this machine: processor, cores that this process may use, instruction sets."""
    return Machine(_cpu_model(), usable_cores(), cpu_flags())


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in _CPUINFO.read_text(encoding="ascii", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def load_average() -> float | None:
    """Return how many threads ran or wanted to, on average over the last minute; None if unknown."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def busy(before: float | None, after: float | None, cores: int) -> bool:
    """Return whether others used the machine: load before we began, or more at the end than we can cause."""
    return (before is not None and before > _BUSY * cores) or (
        after is not None and after > (1 + _BUSY) * cores
    )
