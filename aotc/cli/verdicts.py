"""The text and JSON of a verdict, shared by ``build`` and ``check``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aotc.cli import ci
from aotc.cli.document import Document
from aotc.cli.output import console, facts, print_json, say, table
from aotc.parity.findings import AnyFinding
from aotc.parity.summary import OutputSummary, by_outcome, summarise
from aotc.parity.verdict import AnyVerdict, CaseVerdict, PartsVerdict, Verdict, accuracy_text, ran
from aotc.text import size_text

_COLUMNS = ["output", "cases", "max abs", "bound there", "worst/bound", "cosine", "top-1", "KL", ""]
_SPARE = ("cosine", "top-1", "KL", "cases")
_REMARKS = {
    "both raise": "refused by {0} and {1} alike",
    "not compared": "{0} refuses these drawn values; not compared",
    "refused size": "size not supported; the {1} refuses it",
    "engine raises": "FAIL: the {1} refuses what {0} accepts",
    "engine accepts": "FAIL: the {1} accepts what {0} refuses",
}
_LABELS = 4


class VerdictDocument(Document):
    """What ``build`` and ``check`` print; ``bundle`` and ``digest`` are null if there is none.

    ``bisect`` is what ``check --bisect`` found.
    """

    passed: bool
    bundle: str | None = None
    digest: str | None = None
    notes: tuple[str, ...] = ()
    verdict: AnyVerdict
    bisect: AnyFinding | None = None


def show_verdict(
    verdict: AnyVerdict,
    *,
    as_json: bool,
    bundle: str | None = None,
    digest: str | None = None,
    notes: tuple[str, ...] = (),
    finding: AnyFinding | None = None,
    refused: bool = False,
    seconds: Mapping[str, float] = MappingProxyType({}),
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Print the verdict, and tell CI of one that passed; of others it is told by the error.

    Args:
        verdict: What was found.
        as_json: Print a document, not a summary.
        bundle: The bundle's path.
        digest: Its digest.
        notes: What else there is to say.
        finding: What a search for the fault found.
        refused: The command ends in an error although the verdict is positive: it is of too low a level.
        seconds: By stage.
        sizes: Bytes by file.
    """
    if as_json:
        document = VerdictDocument(
            passed=verdict.passed,
            bundle=bundle,
            digest=digest,
            notes=notes,
            verdict=verdict,
            bisect=finding,
        )
        print_json(document.to_dict())
    else:
        _summary(verdict, notes, finding, seconds, sizes)
    if verdict.passed and not refused:
        ci.passed(verdict, notes)


def verified(verdict: AnyVerdict) -> str:
    """Return what a positive verdict says, with its level if the engine was not run."""
    if verdict.level == "executed":
        return f"verified against {verdict.reference}"
    return f"verified at level graph against {verdict.reference}, the engine was never run"


def _summary(
    verdict: AnyVerdict,
    notes: Sequence[str],
    finding: AnyFinding | None,
    seconds: Mapping[str, float],
    sizes: Mapping[str, int],
) -> None:
    parts = verdict.parts if isinstance(verdict, PartsVerdict) else {"": verdict}
    summaries = [(part, each) for part, found in parts.items() for each in summarise(found.engines)]
    rows = [_row(f"{part}.{each.name}" if part else each.name, each) for part, each in summaries]
    console().print(table(_COLUMNS, rows, numbers=1, spare=_SPARE))
    for part, found in parts.items():
        _print_remarks(found, f"{part}: " if part else "")
    if verdict.accuracy is not None:
        say(accuracy_text(verdict.accuracy, verdict.reference, verdict.level))
    for note in notes:
        say(f"note: {note}")
    engines = {engine.engine: None for found in parts.values() for engine in found.engines}
    known = {
        f"{ran(verdict.level)}s": ", ".join(engines),
        "seconds": ", ".join(f"{stage} {took:.1f}" for stage, took in seconds.items()),
        "sizes": ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items()),
    }
    console().print(facts({name: text for name, text in known.items() if text}))
    if finding is not None:
        say(str(finding))
        if finding.saved is not None:
            say(f"reproduction: {finding.saved}, python run.py")


def _row(name: str, output: OutputSummary) -> list[object]:
    return [
        name,
        output.cases,
        f"{output.worst.max_abs:.2e}",
        output.worst.bound,
        f"{output.worst.ratio:.2f}",
        f"{output.cosine:.7f}" if output.cosine is not None else "-",
        f"{output.top1:.2%}" if output.top1 is not None else "-",
        f"{output.kl:.1e}" if output.kl is not None else "-",
        "pass" if output.passed else "FAIL",
    ]


def _print_remarks(verdict: Verdict, prefix: str) -> None:
    """Print what was not compared, or not equal in another way than by its numbers."""
    found, names = by_outcome(verdict.engines), (verdict.reference, ran(verdict.level))
    for outcome, text in _REMARKS.items():
        if cases := found.get(outcome):
            say(f"{prefix}{len(cases)} x {text.format(*names)}: {_labels(cases)}")
    excused = [case for case in found.get("equal", ()) if any(o.excused for o in case.outputs)]
    if excused:
        what = "entries that are NaN or Inf in {0} and not in its float64 run; not compared"
        say(f"{prefix}{len(excused)} x {what.format(verdict.reference)}: {_labels(excused)}")


def _labels(cases: Sequence[CaseVerdict]) -> str:
    more = " ..." if len(cases) > _LABELS else ""
    return ", ".join(case.label for case in cases[:_LABELS]) + more
