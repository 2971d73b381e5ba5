"""The verdict: what was compared, with which figures, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from aotc.parity.metrics import OutputFigures

SCHEMA_VERSION = 1
FIGURES = "parity.json"
"""The verdict's file in a bundle."""
Outcome = Literal[
    "equal", "differs", "both raise", "engine raises", "engine accepts", "not compared", "refused size"
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CaseVerdict(_Frozen):
    """One input set on one engine.

    ``both raise``: eager and engine refuse the inputs, which passes. ``engine accepts``: eager refuses them
    and the engine returns numbers, which fails. ``not compared``: the same for drawn extreme values, where no
    check of the inputs could tell; it counts for nothing and is shown. ``refused size``: the engine is not
    equal to eager for an empty axis, or raises beyond a branch on sizes, and its signature refuses that size.
    """

    label: str
    sizes: dict[str, int]
    outcome: Outcome
    detail: str | None = None
    outputs: tuple[OutputFigures, ...] = ()

    @property
    def passed(self) -> bool:
        """Return whether eager and engine agree."""
        return self.outcome not in ("differs", "engine raises", "engine accepts")

    @property
    def ratio(self) -> float:
        """Return the worst error over its bound; infinite if the engine failed in another way."""
        if self.outcome in ("equal", "differs") and self.outputs:
            return max(o.severity for o in self.outputs)
        return 0.0 if self.passed else float("inf")


class EngineVerdict(_Frozen):
    """All cases on one engine file; ``selection`` says which file and why."""

    engine: str
    cases: tuple[CaseVerdict, ...]

    @property
    def passed(self) -> bool:
        """Return whether every case passed."""
        return all(case.passed for case in self.cases)


class Accuracy(_Frozen):
    """The source's own metric, higher is better."""

    eager: float
    engine: float
    limit: float

    @property
    def passed(self) -> bool:
        """Return whether engine and eager are within ``limit`` of each other (NaN never is)."""
        return abs(self.eager - self.engine) <= self.limit


class Verdict(_Frozen):
    """The result of the gate; ``parity.json`` in a bundle."""

    schema_version: Literal[1] = 1
    level: Literal["executed", "graph"] = "executed"
    reference: str = "eager"
    """What the engine was compared with: eager, or the untouched file of an ONNX source."""
    engines: tuple[EngineVerdict, ...]
    accuracy: Accuracy | None = None
    environment: dict[str, str]
    seconds: dict[str, float] = {}

    @property
    def passed(self) -> bool:
        """Return whether the engine computes what eager computes, in every case on every engine file."""
        compared = any(case.outcome == "equal" for engine in self.engines for case in engine.cases)
        accurate = self.accuracy is None or self.accuracy.passed
        return compared and accurate and all(engine.passed for engine in self.engines)

    def worst(self) -> tuple[EngineVerdict, CaseVerdict]:
        """Return the engine and case with the largest error over its bound."""
        pairs = [(engine, case) for engine in self.engines for case in engine.cases]
        return max(pairs, key=lambda pair: (not pair[1].passed, pair[1].ratio))

    @property
    def with_failed_case(self) -> Verdict | None:
        """Return this verdict if a case failed, and not the metric alone."""
        return None if self.worst()[1].passed else self


class PartsVerdict(_Frozen):
    """The results of a model in parts: the verdict of each, and the source's metric of them together."""

    schema_version: Literal[1] = 1
    parts: Mapping[str, Verdict]
    accuracy: Accuracy | None = None

    @property
    def level(self) -> Literal["executed", "graph"]:
        """Return ``executed`` if the engine of every part ran."""
        return "graph" if any(verdict.level == "graph" for verdict in self.parts.values()) else "executed"

    @property
    def reference(self) -> str:
        """Return what the engines were compared with."""
        return next(iter(self.parts.values())).reference

    @property
    def passed(self) -> bool:
        """Return whether every part passed, and the metric."""
        return self.failed is None and (self.accuracy is None or self.accuracy.passed)

    @property
    def failed(self) -> str | None:
        """Return the name of the first part that did not pass."""
        return next((name for name, verdict in self.parts.items() if not verdict.passed), None)

    @property
    def with_failed_case(self) -> Verdict | None:
        """Return the verdict of the first part that did not pass, if a case of it failed."""
        return self.parts[self.failed].with_failed_case if self.failed is not None else None


AnyVerdict = Verdict | PartsVerdict


def by_part(verdict: AnyVerdict) -> Mapping[str, Verdict]:
    """Return the verdicts of the parts; that of one graph by the empty name."""
    return verdict.parts if isinstance(verdict, PartsVerdict) else {"": verdict}


def ran(level: str) -> str:
    """Return what was run at ``level``: the engine, or its graph on another runtime."""
    return "engine" if level == "executed" else "graph"


def accuracy_text(accuracy: Accuracy, reference: str, level: str = "executed") -> str:
    """Return the source's own metric of the reference and of what was run in one line."""
    return f"accuracy: {reference} {accuracy.eager:.6g}, {ran(level)} {accuracy.engine:.6g}"
