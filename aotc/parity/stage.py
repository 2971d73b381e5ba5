"""The check stage: every engine file of an unsealed bundle against eager, then the source's own metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from aotc.bundle import Contents
from aotc.child import Progress, run_in_child
from aotc.environment import environment
from aotc.errors import RefusedError, UnexecutedError, UsageError, VerdictError
from aotc.parity.golden import Reference
from aotc.parity.verdict import Accuracy, CaseVerdict, EngineVerdict, Verdict
from aotc.runtime.unsealed import load_unsealed
from aotc.target import Target

ACCURACY_LIMIT = 1e-4
"""A metric of eager and engine may differ by this much."""

Metric = Callable[[Any], float]
"""The source's ``accuracy``; it is given what runs: a function, or for a model in parts a dict of them."""


def judge_engines(
    directory: Path,
    contents: Contents,
    cases: Path,
    references: Sequence[Reference],
    threads: int | None,
    progress: Progress,
) -> tuple[EngineVerdict, ...]:
    """Run every engine file on every case, in a child process.

    Args:
        directory: The unsealed bundle.
        contents: What it will say about itself.
        cases: Folder of the case files.
        references: The cases.
        threads: Threads of the engine.
        progress: Told each case.
    """
    crashed: dict[str, str] = {}
    while True:
        payload = {
            "directory": str(directory),
            "contents": contents.model_dump(mode="json"),
            "cases": str(cases),
            "references": [r.model_dump(mode="json") for r in references if r.label not in crashed],
            "threads": threads,
        }
        try:
            found = run_in_child("aotc.parity.worker:check_engines", payload, progress)
        except RefusedError as error:
            label = _empty_case(error, references)
            if label is None or label in crashed:
                raise
            crashed[label] = error.message
        else:
            engines = [EngineVerdict.model_validate(item) for item in found]
            return tuple(_with_refused(engine, references, crashed) for engine in engines)


def _empty_case(error: RefusedError, references: Sequence[Reference]) -> str | None:
    """Return the label of the case at which native code crashed, if some axis of it is empty.

    Kernels that divide by a size end the process there; such a size can be refused, others cannot.
    """
    if error.name != "native-crash" or error.where is None:
        return None
    _, _, label = error.where.partition(": ")
    return next((r.label for r in references if r.label == label and r.kind == "zero"), None)


def _with_refused(
    engine: EngineVerdict, references: Sequence[Reference], crashed: Mapping[str, str]
) -> EngineVerdict:
    """Return the verdict with the cases that could not run, in the order of ``references``."""
    judged = {case.label: case for case in engine.cases}
    for r in references:
        if r.label in crashed:
            judged[r.label] = CaseVerdict(
                label=r.label, sizes=r.sizes, outcome="refused size", detail=crashed[r.label]
            )
    return engine.model_copy(update={"cases": tuple(judged[r.label] for r in references)})


def verdict_of(
    level: Literal["executed", "graph"],
    reference: str,
    engines: tuple[EngineVerdict, ...],
    accuracy: Accuracy | None,
    seconds: Mapping[str, float],
) -> Verdict:
    """Return the verdict of a build on this machine; see its fields."""
    return Verdict(
        level=level,
        reference=reference,
        engines=engines,
        accuracy=accuracy,
        environment=environment(),
        seconds=dict(seconds),
    )


def refuse_unexecuted(verdict: Verdict, accept: str | None, target: Target) -> None:
    """Refuse to publish an engine that was not run, unless the user accepts what was verified instead.

    Raises:
        UnexecutedError: The verdict is of level ``graph``, and ``accept`` is not.
    """
    if verdict.level == "graph" and accept != "graph":
        error = UnexecutedError(
            f"the engine for {target} was compiled and cannot be run here: "
            f"only its graph was verified against {verdict.reference}, on another runtime",
            hint="--accept graph publishes it, at level graph",
        )
        error.verdict = verdict
        raise error


def score(metric: Metric, run: Any, *, eager: float | None = None) -> float:
    """Run the source's metric; an exception of its code surfaces as itself.

    Args:
        metric: The source's ``accuracy``.
        run: What runs eager, or the engine.
        eager: What the metric gave for eager, if ``run`` is the engine.

    Raises:
        UsageError: It returned anything but a finite number for eager, or no number at all.
        VerdictError: It returned NaN or Inf for the engine.
    """
    value = metric(run)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"accuracy() returned {value!r}, not a number", slug="source") from error
    if math.isfinite(number):
        return number
    if eager is None:
        raise UsageError(f"accuracy() is {number} on eager", slug="source")
    raise VerdictError(f"accuracy() is {number} on the engine and {eager:.6g} on eager", slug="parity")


def engine_accuracy(
    metric: Metric | None, eager: float | None, directory: Path, contents: Contents, threads: int | None
) -> Accuracy | None:
    """Run the source's metric on the engine that this machine would choose.

    Args:
        metric: The source's ``accuracy``; an exception of its code surfaces as itself.
        eager: What it gave for eager.
        directory: The unsealed bundle.
        contents: What it will say about itself.
        threads: Threads of the engine.
    """
    if metric is None or eager is None:
        return None
    with load_unsealed(directory, contents, contents.runnable[-1], threads=threads) as engine:
        return compare_accuracy(metric, eager, engine.run)


def compare_accuracy(metric: Metric, eager: float, run: Any) -> Accuracy:
    """Run the source's metric on an engine; ``eager`` is what it gave for eager.

    Raises:
        UsageError: The metric itself is random, so it says nothing about the engine.
    """
    found = Accuracy(eager=eager, engine=score(metric, run, eager=eager), limit=ACCURACY_LIMIT)
    if not found.passed and score(metric, run, eager=eager) != found.engine:
        raise UsageError(
            "accuracy() gives another number each time it is called",
            slug="source",
            hint="seed what it draws, inside accuracy()",
        )
    return found
