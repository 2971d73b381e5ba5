"""Runs a pipeline: each pass in order, validated and observed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import onnx_ir as ir

from aotc.errors import AotcError, InternalError
from aotc.ir.scopes import describe
from aotc.ir.text import to_text
from aotc.ir.verify import verify
from aotc.rewrite.contract import Context, Pass, PassResult, Refusal, Relation
from aotc.rewrite.regions import Region, restore

Check = Callable[[ir.Model, Pass], None]
"""Compares the whole model with what it must compute; raises VerdictError naming the pass."""


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A rewritten region that does not compute what it did, and how far it is off."""

    region: Region
    reason: str


Validator = Callable[[ir.Model, ir.Model], Sequence[Rejected]]
"""Compares the regions that a pass rewrote, before and after, by running both."""
Budget = Callable[[ir.Model, ir.Model, Pass], None]
"""Compares the whole graph before and after a pass with what it may cost; raises VerdictError naming it."""


@dataclasses.dataclass(frozen=True)
class Checks:
    """What is compared after a pass that changed the graph.

    What ``regions`` rejects of a pass that keeps the function is put back as it was, and is a refusal of the
    pass; one that keeps it within a budget is judged by ``budget`` instead, which ends the build. So does
    ``model`` (``--validate each``).
    """

    regions: Validator | None = None
    budget: Budget | None = None
    model: Check | None = None


@dataclasses.dataclass(frozen=True)
class PassRecord:
    """What one pass did in one build; kept in the bundle, without the seconds."""

    name: str
    changes: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    seconds: float


class Observer(Protocol):
    """Watches passes without taking part: dumping, timing, tracing."""

    def after_pass(self, index: int, model: ir.Model, record: PassRecord) -> None:
        """Be told of a finished pass; the model is the pass's result and must not be changed."""


@dataclasses.dataclass(frozen=True)
class DumpObserver:
    """Writes the text of the graph after each pass that changed it: ``007_fold-batch-norm.onnxtxt``."""

    directory: Path

    def after_pass(self, index: int, model: ir.Model, record: PassRecord) -> None:
        """Write the dump; the folder is made at the first one."""
        if record.changes:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"{index:03d}_{record.name.partition('{')[0]}.onnxtxt"
            path.write_text(to_text(model), encoding="utf-8")


def run_passes(
    model: ir.Model,
    passes: Sequence[Pass],
    context: Context,
    *,
    checks: Checks = Checks(),
    observers: Sequence[Observer] = (),
) -> list[PassRecord]:
    """Run ``passes`` in order on ``model``, in place.

    Args:
        model: The graph; verified before the first pass and after each pass that changed it.
        passes: The pipeline.
        context: The oracle and whatever else passes may use.
        checks: What is compared after each pass that changed the graph.
        observers: Told of each finished pass.

    Raises:
        InternalError: A pass failed or left an invalid graph; the message names it.
        VerdictError: The check of the whole model found that a pass changed what it computes.
    """
    verify(model, after="import")
    records = []
    for index, current in enumerate(passes):
        start = time.perf_counter()
        interface = _interface(model)
        before = model.clone() if checks.regions or checks.budget else model
        result = _run_one(model, current, context)
        if result.modified:
            verify(model, after=str(current))
            if _interface(model) != interface:
                raise InternalError(f"{current} changed the inputs or outputs of the graph")
            if current.relation is Relation.WITHIN:
                if checks.budget is not None:
                    checks.budget(before, model, current)
            elif checks.regions is not None:
                result = _validated(result, model, before, checks.regions)
        seconds = time.perf_counter() - start
        if result.modified and checks.model is not None:
            checks.model(model, current)
        record = PassRecord(str(current), result.changes, result.refusals, seconds)
        for observer in observers:
            observer.after_pass(index, model, record)
        records.append(record)
    return records


def _interface(model: ir.Model) -> tuple[list[str | None], list[str | None]]:
    return [value.name for value in model.graph.inputs], [value.name for value in model.graph.outputs]


def _validated(result: PassResult, model: ir.Model, before: ir.Model, validate: Validator) -> PassResult:
    """Put back the regions that are rejected, and tell of them."""
    rejected = validate(before, model)
    if not rejected:
        return result
    places = [(each.region.value, each.region.old) for each in rejected]
    refusals = [
        Refusal(each.reason, describe(old[-1]) if old else value, _made(each.region))
        for each, (value, old) in zip(rejected, places, strict=True)
    ]
    if not restore(model, before, [each.region for each in rejected]):
        value, old = places[0]
        reason = f"the rest of what the pass rewrote needs the new form of '{value}', and was put back too"
        refusals.append(Refusal(reason, describe(old[-1])))
    verify(model, after="what was rejected was put back")
    return dataclasses.replace(result, refusals=(*result.refusals, *refusals))


def _made(region: Region) -> str:
    """Return the operator of the standard that a rejected rewrite ended in, or that is new in it."""
    before = {node.op_type for node in region.old}
    new = [node.op_type for node in reversed(region.new) if not node.domain and node.op_type not in before]
    return new[0] if new else ""


def _run_one(model: ir.Model, current: Pass, context: Context) -> PassResult:
    try:
        return current.run(model, context)
    except (AotcError, InternalError):
        raise
    except Exception as error:
        raise InternalError(f"the pass {current} failed: {type(error).__name__}: {error}") from error
