"""The text and JSON of a verdict, shared by ``build`` and ``check``."""

from __future__ import annotations

from rich.console import Console

from aotc.cli import ci
from aotc.cli.document import Document
from aotc.cli.output import console, print_json, say, table
from aotc.parity.findings import AnyFinding
from aotc.parity.verdict import AnyVerdict, CaseVerdict, EngineVerdict, PartsVerdict, Verdict, accuracy_text

_COLUMNS = ["engine", "output", "cases", "max abs", "bound there", "worst/bound", "cosine", "top-1", "KL", ""]
_REMARKS = {
    "both raise": "refused by eager and engine alike",
    "not compared": "eager refuses these drawn values; not compared",
    "refused size": "size not supported; the engine refuses it",
    "engine raises": "FAIL: the engine refuses what eager accepts",
    "engine accepts": "FAIL: the engine accepts what eager refuses",
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
) -> None:
    """Print the verdict as a document or as text; CI is told of one that passed, and else of the error."""
    _show(verdict, as_json, bundle, digest, notes, finding)
    if verdict.passed:
        ci.passed(verdict, notes)


def _show(
    verdict: AnyVerdict,
    as_json: bool,
    bundle: str | None,
    digest: str | None,
    notes: tuple[str, ...],
    finding: AnyFinding | None,
) -> None:
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
        return
    if isinstance(verdict, PartsVerdict):
        for part, each in verdict.parts.items():
            say(f"part {part}")
            _print_verdict(console(), each)
    else:
        _print_verdict(console(), verdict)
    if verdict.accuracy is not None:
        say(accuracy_text(verdict.accuracy))
    for note in notes:
        say(f"note: {note}")
    if finding is not None:
        say(str(finding))
        if finding.saved is not None:
            say(f"reproduction: {finding.saved}, python run.py")


def _print_verdict(out: Console, verdict: Verdict) -> None:
    """Print one line an output of each engine, and what was not compared."""
    rows = [row for engine in verdict.engines for row in _rows(engine)]
    out.print(table(_COLUMNS, rows, numbers=2))
    for engine in verdict.engines[:1]:
        _print_remarks(engine)


def _rows(engine: EngineVerdict) -> list[list[object]]:
    """One row for each output: its worst figures over all cases."""
    names = dict.fromkeys(figures.name for case in engine.cases for figures in case.outputs)
    return [_row(engine, name) for name in names]


def _row(engine: EngineVerdict, name: str) -> list[object]:
    figures = [o for case in engine.cases for o in case.outputs if o.name == name]
    worst = max(figures, key=lambda o: (not o.passed, o.ratio))
    cosines = [o.cosine for o in figures if o.cosine is not None]
    top1 = [o.top1 for o in figures if o.top1 is not None]
    kl = [o.kl for o in figures if o.kl is not None]
    return [
        engine.engine,
        name,
        len(figures),
        f"{worst.max_abs:.2e}",
        f"{worst.atol:.2e}" + (f" + {worst.rtol:g} rel" if worst.rtol else ""),
        f"{worst.ratio:.2f}",
        f"{min(cosines):.7f}" if cosines else "-",
        f"{min(top1):.2%}" if top1 else "-",
        f"{max(kl):.1e}" if kl else "-",
        "pass" if all(o.passed for o in figures) else "FAIL",
    ]


def _print_remarks(engine: EngineVerdict) -> None:
    by_outcome: dict[str, list[CaseVerdict]] = {}
    for case in engine.cases:
        by_outcome.setdefault(case.outcome, []).append(case)
    for outcome, text in _REMARKS.items():
        if cases := by_outcome.get(outcome):
            more = " ..." if len(cases) > _LABELS else ""
            labels = ", ".join(case.label for case in cases[:_LABELS]) + more
            say(f"{len(cases)} x {text}: {labels}")
    excused = [case for case in engine.cases if any(o.excused for o in case.outputs)]
    if excused:
        labels = ", ".join(case.label for case in excused[:_LABELS])
        what = "entries that are NaN or Inf in eager and not in its float64 run; not compared"
        say(f"{len(excused)} x {what}: {labels}")
