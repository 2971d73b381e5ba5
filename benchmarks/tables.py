"""The tables of a benchmark run: medians over the rounds, with their smallest and largest values."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from aotc.cli.output import console, table

MB = 1e6
LIMIT_FACTOR, LIMIT_BASE = 2.2, 0.4e9
"""The goal for a build's anonymous memory: 2.2 times the weights and 0.4 GB."""

Rows = list[list[object]]


def print_tables(document: dict[str, Any]) -> None:
    """Print everything that a run has found."""
    average = document["load_average"]
    print(f"machine: {document['machine']['text']}")
    print(f"load average: before {average['before']}, after {average['after']}; {document['rounds']} rounds")
    if document["busy"]:
        print("the machine was busy: times and ratios are rough")
    subjects = document["subjects"]
    show("build: seconds", ["model", "what", "median", "min..max", "x bare export"], builds(subjects))
    show(
        "build: peak anonymous memory",
        ["model", "what", "MB", "min..max", "x weights", "of goal"],
        memory(subjects),
    )
    show(
        "load: seconds in a new process",
        ["model", "what", "median", "min..max", "x plain", "MB anonymous"],
        loads(subjects),
    )
    show(
        "latency: ms",
        ["model", "sizes", "runner", "p50", "min..max", "p95", "x aotc", "min..max", ""],
        latencies(subjects),
    )


def show(title: str, columns: list[str], rows: Rows) -> None:
    """Print one table with its title."""
    print(f"\n{title}")
    console().print(table(columns, rows, numbers=3 if columns[2] == "runner" else 2))


def builds(subjects: dict[str, Any]) -> Rows:
    """Rows of the build's stages, the whole, and the bare export."""
    rows: Rows = []
    for name, found in subjects.items():
        export = [each["seconds"] for each in found["export"]]
        parts = {stage: [b["stages"][stage] for b in found["build"]] for stage in found["build"][0]["stages"]}
        parts["all stages"] = [sum(b["stages"].values()) for b in found["build"]]
        parts["whole process"] = [b["process"] for b in found["build"]]
        parts["bare export"] = export
        for part, seconds in parts.items():
            rows.append([name, part, middle(seconds), spread(seconds), middle(over(seconds, export))])
    return rows


def memory(subjects: dict[str, Any]) -> Rows:
    """Rows of the peaks of build and bare export."""
    rows: Rows = []
    for name, found in subjects.items():
        weights = found["weights"]
        goal = LIMIT_FACTOR * weights + LIMIT_BASE
        for what, each in (("build", found["build"]), ("bare export", found["export"])):
            peaks = [one["peak"] / MB for one in each]
            peak = statistics.median(peaks) * MB
            rows.append(
                [
                    name,
                    what,
                    middle(peaks, 0),
                    spread(peaks, 0),
                    f"{peak / weights:.2f}",
                    f"{peak / goal:.2f}",
                ]
            )
        rows.append([name, "weights", f"{weights / MB:.0f}", "", "1.00", ""])
    return rows


def loads(subjects: dict[str, Any]) -> Rows:
    """Rows of the bundle's load and its parts, and of the plain sessions."""
    labels = {
        "load_bundle": "aotc: verify + create + first run",
        "load_plain": "plain: create + first run",
        "load_parallel": "plain, parallel prepack",
    }
    rows: Rows = []
    for name, found in subjects.items():
        plain = [each["seconds"] for each in found["load_plain"]]
        for task, label in labels.items():
            seconds = [each["seconds"] for each in found[task]]
            held = middle([each["anonymous"] / MB for each in found[task]], 0)
            rows.append(
                [name, label, middle(seconds, 3), spread(seconds, 3), middle(over(seconds, plain)), held]
            )
            for part in [p for p in ("verify", "create", "first run") if p in found[task][0]]:
                taken = [each[part] for each in found[task]]
                rows.append([name, f"  {part}", middle(taken, 3), spread(taken, 3), "", ""])
    return rows


def latencies(subjects: dict[str, Any]) -> Rows:
    """Rows of each size and runner."""
    rows: Rows = []
    for name, found in subjects.items():
        for index, entry in enumerate(found["latency"][0]):
            label = " ".join(f"{dim}={size}" for dim, size in entry["sizes"].items())
            for runner in entry["runners"]:
                each = [one[index]["runners"][runner] for one in found["latency"]]
                rows.append([name, label, runner, *latency_cells(each)])
    return rows


def latency_cells(each: list[dict[str, Any]]) -> list[object]:
    """Return the cells of one runner over all rounds."""
    if failures := [one["failure"] for one in each if "failure" in one]:
        return ["-", "-", "-", "-", "-", failures[0]]
    p50, p95 = ([one[key] * 1e3 for one in each] for key in ("p50_s", "p95_s"))
    ratio = [one["ratio"] for one in each]
    return [middle(p50, 3), spread(p50, 3), middle(p95, 3), middle(ratio), spread(ratio), ""]


def over(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [value / unit for value, unit in zip(values, base, strict=True)]


def middle(values: Sequence[float], digits: int = 2) -> str:
    """Return the median."""
    return f"{statistics.median(values):.{digits}f}"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the smallest and the largest value."""
    return f"{min(values):.{digits}f}..{max(values):.{digits}f}"
