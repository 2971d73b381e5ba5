"""What ``aotc inspect`` tells of a verified bundle, as a document."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable

from pydantic import ValidationError

from aotc.bundle import (
    ASSETS,
    REPORT,
    Description,
    DeviceRequirements,
    OpenBundle,
    OpenParts,
    PassEntry,
    Requirements,
)
from aotc.cli.document import Document, Part
from aotc.cli.operators import OperatorCounts, count_operators
from aotc.cli.output import path_text
from aotc.errors import AotcError, UsageError
from aotc.parity.recorded import recorded
from aotc.parity.verdict import FIGURES, Accuracy, Verdict
from aotc.parts import ACCURACY
from aotc.signature import Signature
from aotc.text import operator_name


class EngineText(Part):
    """One engine file, the files of its weights, and their sizes in bytes."""

    file: str
    kind: str
    size: int
    weights: dict[str, int]
    requires: Requirements | DeviceRequirements | None


class Choice(Part):
    """The engine file that this machine would run, null if none, and why."""

    engine: str | None
    reason: str


class WorstCase(Part):
    """The output with the largest error over its bound."""

    engine: str
    case: str
    output: str
    max_abs: float
    atol: float
    rtol: float
    bound: str
    ratio: float


class ParityText(Part):
    """What was compared with ``reference``, in short; ``cases`` counts input sets for all engine files."""

    reference: str
    cases: int
    equal: int
    worst: WorstCase | None
    accuracy: Accuracy | None


class InspectDocument(Document):
    """What ``inspect`` prints; ``operators`` and ``parity`` are null where ``notes`` says why.

    ``assets`` are the files that came with the model, with their sizes in bytes; ``report`` is the page for
    people, null if the bundle has none.
    """

    bundle: str
    report: str | None
    name: str
    target: str
    precision: str
    level: str
    digest: str
    producer: dict[str, str]
    signature: Signature
    verified_sizes: tuple[dict[str, int], ...]
    engines: tuple[EngineText, ...]
    choice: Choice
    assets: dict[str, int]
    parity: ParityText | None
    passes: tuple[PassEntry, ...]
    operators: OperatorCounts | None
    notes: tuple[str, ...]


class PartText(Part):
    """One part: its bundle's digest and signature."""

    digest: str
    signature: Signature
    verified_sizes: tuple[dict[str, int], ...]


class PartsDocument(Document):
    """What ``inspect`` prints for a model in parts; ``accuracy`` is null if the source has no metric.

    ``report`` is the page for people, null if the bundle has none.
    """

    bundle: str
    report: str | None
    name: str
    digest: str
    parts: dict[str, PartText]
    accuracy: Accuracy | None


def inspect_parts(bundle: OpenParts) -> PartsDocument:
    """Describe a verified model in parts."""
    description = bundle.description
    accuracy = None
    if ACCURACY in description.beside:
        with contextlib.suppress(ValidationError):  # of another version of aotc
            accuracy = Accuracy.model_validate_json(bytes(bundle.buffer(ACCURACY)))
    return PartsDocument(
        bundle=path_text(bundle.path),
        report=_report(bundle),
        name=description.name,
        digest=description.digest,
        parts={name: _part(part.description) for name, part in bundle.parts.items()},
        accuracy=accuracy,
    )


def _report(bundle: OpenBundle | OpenParts) -> str | None:
    return path_text(bundle.path / REPORT) if REPORT in bundle.description.beside else None


def _part(description: Description) -> PartText:
    return PartText(
        **{name: getattr(description, name) for name in ("digest", "signature", "verified_sizes")}
    )


def inspect(bundle: OpenBundle, why: str | None) -> InspectDocument:
    """Describe a verified bundle; with ``why`` only the pass or the operator of that name.

    Raises:
        UsageError: No pass of that name ran, and there is no such operator.
    """
    description = bundle.description
    parity, no_parity = _parity(bundle)
    operators, no_operators = count_operators(bundle)
    passes = description.passes if why is None else _named(description, why, operators)
    return InspectDocument(
        bundle=path_text(bundle.path),
        report=_report(bundle),
        **{name: getattr(description, name) for name in ("name", "target", "level", "digest", "producer")},
        precision=str(description.options.get("precision", "fp32")),
        signature=description.signature,
        verified_sizes=description.verified_sizes,
        engines=_engines(description),
        choice=_choice(description),
        assets={name: description.files[f"{ASSETS}/{name}"].size for name in description.assets},
        parity=parity,
        passes=passes,
        operators=operators,
        notes=tuple(note for note in (no_parity, no_operators) if note),
    )


def _named(description: Description, why: str, operators: OperatorCounts | None) -> tuple[PassEntry, ...]:
    """Return the runs of the pass ``why``, or what passes say of the operator of that name.

    The name of a pass in the bundle may have options.
    """
    if found := tuple(entry for entry in description.passes if entry.name.partition("{")[0] == why):
        return found
    about = tuple(part for entry in description.passes if (part := _about(entry, why)) is not None)
    present = {operator_name(kind) for kind in (operators.total if operators else ())}
    if not about and why not in present:
        known = {entry.name.partition("{")[0] for entry in description.passes}
        raise UsageError(
            f"no pass '{why}' ran when this bundle was built", hint=_suggestion(why, known | present)
        )
    return about


def _about(entry: PassEntry, operator: str) -> PassEntry | None:
    """Return what ``entry`` changed into an operator or refused to; None if nothing."""
    changes = tuple(
        line for line in entry.changes if operator in map(operator_name, _words(line.rpartition(" -> ")[2]))
    )
    refusals = tuple(each for each in entry.refusals if operator_name(each.operator) == operator)
    return (
        entry.model_copy(update={"changes": changes, "refusals": refusals}) if changes or refusals else None
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _suggestion(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"passes that ran: {', '.join(sorted(known)) or 'none'}"


def _engines(description: Description) -> tuple[EngineText, ...]:
    return tuple(
        EngineText(
            file=engine.file,
            kind=engine.kind,
            size=description.files[engine.file].size,
            weights={name: description.files[name].size for name in sorted({t.file for t in engine.tensors})},
            requires=engine.requires,
        )
        for engine in description.engines
    )


def _choice(description: Description) -> Choice:
    from aotc.runtime import requirements_here
    from aotc.runtime.choose import choose

    try:
        engine, reason = choose(description, requirements_here())
    except AotcError as error:  # no runtime here, or no engine for this machine: that is the answer
        return Choice(engine=None, reason=error.message)
    return Choice(engine=engine.file, reason=reason)


def _parity(bundle: OpenBundle) -> tuple[ParityText | None, str | None]:
    verdict = recorded(bundle)
    if verdict is None:
        listed = FIGURES in bundle.description.beside
        return None, f"{FIGURES} is of another version of aotc" if listed else f"this bundle has no {FIGURES}"
    cases = [case for engine in verdict.engines for case in engine.cases]
    equal = sum(case.outcome == "equal" for case in cases)
    return ParityText(
        reference=verdict.reference,
        cases=len(cases),
        equal=equal,
        worst=_worst(verdict),
        accuracy=verdict.accuracy,
    ), None


def _worst(verdict: Verdict) -> WorstCase | None:
    found = [
        WorstCase(
            engine=engine.engine,
            case=case.label,
            output=figures.name,
            **{name: getattr(figures, name) for name in ("max_abs", "atol", "rtol", "bound", "ratio")},
        )
        for engine in verdict.engines
        for case in engine.cases
        for figures in case.outputs
    ]
    return max(found, key=lambda worst: worst.ratio, default=None)
