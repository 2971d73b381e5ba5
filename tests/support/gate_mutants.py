"""Tries the gate on every mutant of a model, and says where each of them stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from gate_equivalence import Equivalence
from gate_models import MORE
from gate_trial import Recorded, judge
from gate_worker import Worker
from mutate import ROUNDING, Mutant, mutants

from aotc.errors import RefusedError
from aotc.parity.verdict import Verdict

Outcome = Literal["caught", "refused", "equivalent", "survived"]


@dataclasses.dataclass(frozen=True)
class Trial:
    """A mutant and what became of it.

    ``refused``: no engine could be made of it. ``ratio`` is the gate's worst error by its bound, at ``case``.
    ``seen`` is how far the mutant is from the original on the gate's inputs and ``elsewhere`` on others, in
    float64, in shares of the largest value.
    """

    model: str
    kind: str
    where: str
    outcome: Outcome
    ratio: float = 0.0
    case: str = ""
    seen: float = 0.0
    elsewhere: float = 0.0


def trials(name: str, recorded: Recorded, each: int, worker: Worker) -> Iterator[Trial]:
    """Yield a trial for up to ``each`` mutants of every kind.

    Args:
        name: The model's name; it seeds which mutants.
        recorded: The model.
        each: How many of a kind.
        worker: Runs the engines.
    """
    equivalence = Equivalence(recorded, MORE.get(name, ()))
    for mutant in mutants(recorded.model, name, recorded.example, each):
        yield _trial(name, recorded, mutant, equivalence, worker)


def _trial(name: str, recorded: Recorded, mutant: Mutant, equivalence: Equivalence, worker: Worker) -> Trial:
    try:
        verdict = judge(recorded, mutant.model.clone(), worker)
    except RefusedError:
        return Trial(name, mutant.kind, mutant.where, "refused")
    if not verdict.passed:
        return Trial(name, mutant.kind, mutant.where, "caught")
    found = equivalence.of(mutant.model, rounds=mutant.kind in ROUNDING)
    outcome: Outcome = "equivalent" if found.equivalent else "survived"
    ratio, case = worst(verdict)
    return Trial(name, mutant.kind, mutant.where, outcome, ratio, case, found.seen, found.elsewhere)


def worst(verdict: Verdict) -> tuple[float, str]:
    """Return the largest error by its bound, and the case."""
    case = verdict.worst()[1]
    return case.ratio, case.label
