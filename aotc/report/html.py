"""Renders reports as pages that stand alone: no script, nothing loaded, pictures as SVG in the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from aotc.bundle import Contents
from aotc.ir.operators import Counts, at_depth, depth_for, total
from aotc.parity.summary import by_outcome, summarise
from aotc.parity.verdict import Accuracy, Verdict
from aotc.report import charts
from aotc.report.content import PartsReport, Report
from aotc.text import plain, size_text

_MOST_MODULES = 40
_HEADLINES = {
    ("executed", True): "Verified against {}",
    ("graph", True): "Graph verified against {}; the engine was never run",
    ("executed", False): "Differs from {}",
    ("graph", False): "The graph differs from {}",
}


def render(report: Report) -> str:
    """Return the page of one graph."""
    contents, verdict = report.contents, report.verdict
    outcomes = by_outcome(verdict.engines)
    return _page(
        "graph.html",
        title=contents.name,
        headline=_headline(verdict),
        report=report,
        contents=contents,
        precision=contents.options.get("precision", "fp32"),
        verdict=verdict,
        digest=getattr(contents, "digest", None),
        outputs=summarise(verdict.engines),
        cases=len({case.label for engine in verdict.engines for case in engine.cases}),
        outcomes={outcome: cases for outcome, cases in outcomes.items() if outcome != "equal"},
        errors=charts.error_chart(verdict.engines),
        module_errors=charts.module_chart(report.modules),
        seconds=charts.seconds_chart(verdict.seconds),
        modules=_modules(report.before, report.after),
        nodes=[sum(total(counts).values()) for counts in (report.before, report.after)],
        kinds={engine.file: engine.kind for engine in contents.engines},
        sizes=_sizes(contents),
    )


def render_parts(report: PartsReport) -> str:
    """Return the page of a model in parts, which leads to the pages of the parts."""
    return _page(
        "parts.html",
        title=report.name,
        report=report,
        parts={
            name: (_headline(verdict), verdict, summarise(verdict.engines))
            for name, verdict in report.parts.items()
        },
        passed=all(verdict.passed for verdict in report.parts.values()) and _accurate(report.accuracy),
        unexecuted=any(verdict.level == "graph" for verdict in report.parts.values()),
    )


def _accurate(accuracy: Accuracy | None) -> bool:
    return accuracy is None or accuracy.passed


def _headline(verdict: Verdict) -> str:
    return _HEADLINES[verdict.level, verdict.passed].format(verdict.reference)


def _sizes(contents: Contents) -> dict[str, int]:
    """Return the bytes of each file, and of each folder together."""
    found: dict[str, int] = {}
    for name, entry in contents.files.items():
        folder, slash, _ = name.partition("/")
        found[folder + slash] = found.get(folder + slash, 0) + entry.size
    return found


def _modules(before: Counts, after: Counts) -> list[tuple[str, int, int, str]]:
    """Return (module, nodes before, nodes after, operators) at a depth that keeps the table short."""
    depth = depth_for({*before, *after}, _MOST_MODULES)
    old, new = at_depth(before, depth), at_depth(after, depth)
    rows = [_row(path or "(root)", old.get(path, {}), new.get(path, {})) for path in {**old, **new}]
    return [*rows, _row("all", total(before), total(after))]


def _row(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, int, int, str]:
    kinds = sorted(Counter(before) | Counter(after), key=lambda kind: (-after.get(kind, 0), kind))
    texts = [_change(kind, before.get(kind, 0), after.get(kind, 0)) for kind in kinds]
    return name, sum(before.values()), sum(after.values()), ", ".join(texts)


def _change(kind: str, before: int, after: int) -> str:
    return f"{kind} {after}" if before == after else f"{kind} {before} → {after}"


def _page(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def _environment() -> jinja2.Environment:
    """Return an environment in which no name from a model becomes markup or a control character."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(size=size_text, short=charts.shortened)
    return environment


def _harmless(value: Any) -> Any:
    """Return what may be printed of a value: markup is the template's own, everything else is text."""
    return value if isinstance(value, Markup) else plain(str(value), keep="\n")
