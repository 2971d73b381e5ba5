"""A verdict in short: the worst figures of each output, over all cases and engine files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from aotc.parity.metrics import OutputFigures
from aotc.parity.verdict import CaseVerdict, EngineVerdict


@dataclasses.dataclass(frozen=True)
class OutputSummary:
    """One output: its worst figures and where they were measured; the others over all cases.

    ``cosine`` and ``top1`` are the lowest, ``kl`` is the highest; None where no case has one.
    """

    name: str
    cases: int
    passed: bool
    worst: OutputFigures
    case: str
    engine: str
    cosine: float | None
    top1: float | None
    kl: float | None


def summarise(engines: Sequence[EngineVerdict]) -> tuple[OutputSummary, ...]:
    """Return one summary for each output that was compared, in the order of the signature."""
    found: dict[str, list[tuple[OutputFigures, str, str]]] = {}
    for engine in engines:
        for case in engine.cases:
            for figures in case.outputs:
                found.setdefault(figures.name, []).append((figures, case.label, engine.engine))
    return tuple(_summary(name, entries) for name, entries in found.items())


def _summary(name: str, entries: Sequence[tuple[OutputFigures, str, str]]) -> OutputSummary:
    worst, case, engine = max(entries, key=lambda entry: entry[0].severity)
    figures = [entry[0] for entry in entries]
    return OutputSummary(
        name=name,
        cases=len({label for _, label, _ in entries}),
        passed=all(f.passed for f in figures),
        worst=worst,
        case=case,
        engine=engine,
        cosine=min((f.cosine for f in figures if f.cosine is not None), default=None),
        top1=min((f.top1 for f in figures if f.top1 is not None), default=None),
        kl=max((f.kl for f in figures if f.kl is not None), default=None),
    )


def by_outcome(engines: Sequence[EngineVerdict]) -> dict[str, tuple[CaseVerdict, ...]]:
    """Return the cases of each outcome; one that several engine files share is listed once."""
    found: dict[str, dict[str, CaseVerdict]] = {}
    for engine in engines:
        for case in engine.cases:
            found.setdefault(case.outcome, {}).setdefault(case.label, case)
    return {outcome: tuple(cases.values()) for outcome, cases in found.items()}
