"""The text and JSON of a verdict, shared by ``build`` and ``check``."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from aotc.cli.output import table
from aotc.parity.verdict import CaseVerdict, EngineVerdict, Verdict


def print_verdict(out: Console, verdict: Verdict) -> None:
    """Print one line an output of each engine, what was not compared, and the accuracy."""
    rows: list[list[object]] = []
    for engine in verdict.engines:
        rows += _rows(engine)
    columns = [
        "engine",
        "output",
        "cases",
        "max abs",
        "bound there",
        "worst/bound",
        "cosine",
        "top-1",
        "KL",
        "",
    ]
    out.print(table(columns, rows, numbers=2))
    for engine in verdict.engines[:1]:
        _print_remarks(out, engine)
    if verdict.accuracy is not None:
        accuracy = verdict.accuracy
        out.print(f"accuracy: eager {accuracy.eager:.6g}, engine {accuracy.engine:.6g}")


def _rows(engine: EngineVerdict) -> list[list[object]]:
    """One row for each output: its worst figures over all cases."""
    names = list(dict.fromkeys(o.name for case in engine.cases for o in case.outputs))
    rows: list[list[object]] = []
    for name in names:
        figures = [o for case in engine.cases for o in case.outputs if o.name == name]
        worst = max(figures, key=lambda o: (not o.passed, o.ratio))
        cosines = [o.cosine for o in figures if o.cosine is not None]
        top1 = [o.top1 for o in figures if o.top1 is not None]
        kl = [o.kl for o in figures if o.kl is not None]
        rows.append(
            [
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
        )
    return rows


def _print_remarks(out: Console, engine: EngineVerdict) -> None:
    by_outcome: dict[str, list[CaseVerdict]] = {}
    for case in engine.cases:
        by_outcome.setdefault(case.outcome, []).append(case)
    texts = {
        "both raise": "refused by eager and engine alike",
        "not compared": "eager refuses these drawn values; not compared",
        "refused size": "empty axis not supported; the engine refuses that size",
        "engine raises": "FAIL: the engine refuses what eager accepts",
        "engine accepts": "FAIL: the engine accepts what eager refuses",
    }
    for outcome, text in texts.items():
        if cases := by_outcome.get(outcome):
            labels = ", ".join(case.label for case in cases[:4]) + (" ..." if len(cases) > 4 else "")
            out.print(f"{len(cases)} x {text}: {labels}")


def verdict_json(verdict: Verdict, **more: Any) -> dict[str, Any]:
    """Return the JSON document of a verdict."""
    return {"schema_version": 1, "passed": verdict.passed, **more, "verdict": verdict.model_dump(mode="json")}
