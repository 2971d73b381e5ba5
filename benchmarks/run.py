"""Prints tables of ratios: build against export, load against plain ONNX Runtime, latency against rivals.

``python benchmarks/run.py [minilm] [tiny-lm] [decoder] [--rounds N] [--out FILE.json]``
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import print_tables
from tree_memory import run_sampled

from aotc.bench import busy, load_average, machine

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOADS = ("load_bundle", "load_plain", "load_parallel")


@dataclasses.dataclass(frozen=True)
class Subject:
    """One model of the benchmark: its source file and the sizes at which latency is measured."""

    source: Path
    sizes: tuple[str, ...]
    repeat: int = 20


SUBJECTS = {
    "minilm": Subject(
        ROOT / "samples/minilm/model.py",
        ("batch=1,seq=16", "batch=1,seq=128", "batch=8,seq=128", "batch=1,seq=512"),
    ),
    "tiny-lm": Subject(
        ROOT / "samples/tiny-lm/model.py", ("batch=1,seq=64", "batch=1,seq=512", "batch=4,seq=512")
    ),
    "decoder": Subject(HERE / "decoder.py", ("batch=1,seq=16", "batch=1,seq=64"), repeat=8),
}


def main() -> None:
    """Measure what the command line names and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured (default 3)")
    parser.add_argument("--out", type=Path, help="write every figure here (JSON)")
    options = parser.parse_args()
    names = options.subjects or ["minilm", "tiny-lm"]
    if unknown := [name for name in names if name not in SUBJECTS]:
        parser.error(f"no such subject: {unknown[0]}")
    for document in measure(names, max(options.rounds, 1)):
        if options.out:
            options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print_tables(document)


def measure(names: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield all figures so far after each model, with the machine they were measured on."""
    here, before = machine(), load_average()
    subjects = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="aotc-benchmarks-") as scratch:
            subjects[name] = measure_subject(name, SUBJECTS[name], rounds, Path(scratch))
        after = load_average()
        yield {
            "schema_version": 1,
            "machine": {**dataclasses.asdict(here), "text": str(here)},
            "load_average": {"before": before, "after": after},
            "busy": busy(before, after, here.cores),
            "rounds": rounds,
            "subjects": subjects,
        }


def measure_subject(name: str, subject: Subject, rounds: int, scratch: Path) -> dict[str, Any]:
    """Measure one model; in each round everything that is compared runs one after the other."""
    bundle = scratch / name
    found: dict[str, Any] = {"build": [], "export": [], "latency": [], **{task: [] for task in LOADS}}
    for number in range(rounds):
        progress(f"{name}: round {number + 1} of {rounds}, build")
        found["build"].append(build(subject.source, bundle, scratch))
        progress(f"{name}: round {number + 1} of {rounds}, bare export")
        found["export"].append(run_task("export", subject.source, scratch))
    found["weights"] = sum(file.stat().st_size for file in bundle.glob("weights*"))
    run_task("load_plain", bundle, scratch)  # not counted: brings the files into the page cache
    for number in range(rounds):
        progress(f"{name}: round {number + 1} of {rounds}, load")
        for task in LOADS:
            found[task].append(run_task(task, bundle, scratch))
    for number in range(rounds):
        progress(f"{name}: round {number + 1} of {rounds}, latency")
        found["latency"].append(latency(subject, bundle, scratch))
    return found


def build(source: Path, out: Path, scratch: Path) -> dict[str, Any]:
    """Build a bundle; return the seconds of its stages, the whole process's, and the peak memory in bytes."""
    text, peak, seconds = run_sampled(
        [*aotc(), "build", str(source), "-o", str(out), "--json"], scratch, environment()
    )
    return {"stages": json.loads(text)["verdict"]["seconds"], "process": seconds, "peak": peak}


def run_task(task: str, argument: Path, scratch: Path) -> dict[str, Any]:
    """Run a task of tasks.py in a process of its own."""
    command = [sys.executable, str(HERE / "tasks.py"), task, str(argument)]
    text, peak, _ = run_sampled(command, scratch, environment())
    return {**json.loads(text), "peak": peak}


def latency(subject: Subject, bundle: Path, scratch: Path) -> list[dict[str, Any]]:
    """Return the figures of ``aotc bench`` for each size."""
    sizes = [argument for size in subject.sizes for argument in ("--sizes", size)]
    command = [
        *aotc(),
        "bench",
        str(bundle),
        "--vs",
        str(subject.source),
        "--repeat",
        str(subject.repeat),
        *sizes,
    ]
    text = subprocess.run(
        [*command, "--json"], stdout=subprocess.PIPE, text=True, check=True, cwd=scratch, env=environment()
    ).stdout
    found: list[dict[str, Any]] = json.loads(text)["sizes"]
    return found


def aotc() -> list[str]:
    """Return the command that starts aotc in this environment."""
    return [sys.executable, "-c", "from aotc.cli.main import main; main()"]


def environment() -> dict[str, str]:
    """Return the environment of the measured processes: ours, with nothing that changes aotc's options."""
    return {name: value for name, value in os.environ.items() if not name.startswith("AOTC_")}


def progress(text: str) -> None:
    """Tell of what begins."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
