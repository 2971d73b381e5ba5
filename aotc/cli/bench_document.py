"""What ``aotc bench --json`` prints; all times are in seconds."""

from __future__ import annotations

from aotc.cli.document import Document, Part


class Loading(Part):
    """Medians of loading the bundle: verify its files, create the session, run for the first time."""

    verify_s: float
    create_s: float
    first_run_s: float


class RunnerTimes(Part):
    """One runner at one size; ``ratio`` is its median over aotc's, null if that has none."""

    p50_s: float
    p95_s: float
    best_s: float
    count: int
    ratio: float | None


class RunnerFailure(Part):
    """Why a runner has no times."""

    failure: str


class BenchSizes(Part):
    """All runners at one set of sizes, timed in turns."""

    sizes: dict[str, int]
    runners: dict[str, RunnerTimes | RunnerFailure]


class MachineText(Part):
    """Where it was measured."""

    cpu: str
    cores: int
    flags: tuple[str, ...]


class LoadAverage(Part):
    """Threads that ran or wanted to, over the minute before and after; null if unknown."""

    before: float | None
    after: float | None


class BenchDocument(Document):
    """What ``bench`` prints; ``busy`` says that others used the machine."""

    bundle: str
    digest: str
    selection: str
    threads: int
    repeat: int
    load: Loading
    sizes: tuple[BenchSizes, ...]
    machine: MachineText
    load_average: LoadAverage
    busy: bool
