"""``aotc inspect``: what a bundle holds, what was verified, and what the passes did and refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.output import console, print_json, say, table
from aotc.text import size_text

if TYPE_CHECKING:
    from aotc.cli.inspection import InspectDocument, ParityText, PartsDocument
    from aotc.cli.operators import OperatorCounts

_ROWS = 40
"""Rows of the table of operators where there is no terminal to ask."""
_FEWEST_ROWS = 8


@click.command("inspect", short_help="Show what a bundle holds.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--why", metavar="NAME", help="Show what a pass changed and refused, or what became of an operator."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(directory: Path, why: str | None, as_json: bool) -> None:
    """Show what the bundle DIR holds, after verifying every byte of it."""
    from aotc.bundle import OpenParts, open_any, single_graph
    from aotc.cli.inspection import inspect, inspect_parts

    with open_any(directory) as bundle:
        if isinstance(bundle, OpenParts) and why is None:
            _show_parts(inspect_parts(bundle), as_json)
            return
        document = inspect(single_graph(bundle), why)
    if as_json:
        print_json(document.to_dict())
    elif why is not None:
        _print_why(document, why)
    else:
        _print(document)


def _show_parts(document: PartsDocument, as_json: bool) -> None:
    from aotc.cli.signatures import print_signature
    from aotc.parity.verdict import accuracy_text

    if as_json:
        print_json(document.to_dict())
        return
    say(f"{document.name}: {len(document.parts)} parts")
    say(f"digest {document.digest}")
    if document.report is not None:
        say(f"report {document.report}")
    for name, part in document.parts.items():
        say(f"\n{name}: digest {part.digest}")
        print_signature(part.signature, part.verified_sizes)
        say(f"aotc inspect {document.bundle}/{name}")
    if document.accuracy is not None:
        say(f"\n{accuracy_text(document.accuracy, 'eager')}")


def _print(document: InspectDocument) -> None:
    from aotc.cli.signatures import print_signature

    say(f"{document.name}: {document.target}, {document.precision}, level {document.level}")
    say(f"digest {document.digest}")
    if document.report is not None:
        say(f"report {document.report}")
    say("built with " + ", ".join(f"{name} {version}" for name, version in document.producer.items()))
    print_signature(document.signature, document.verified_sizes)
    _print_engines(document)
    if document.parity is not None:
        _print_parity(document.parity, document.level)
    _print_passes(document)
    if document.operators is not None:
        _print_operators(document.operators)
    for note in document.notes:
        say(f"\nnote: {note}")


def _print_engines(document: InspectDocument) -> None:
    say("")
    rows: list[list[object]] = []
    for engine in document.engines:
        weights = ", ".join(f"{name} {size_text(size)}" for name, size in engine.weights.items())
        here = "this one runs here" if engine.file == document.choice.engine else ""
        rows.append([engine.file, engine.kind, size_text(engine.size), weights or "-", here])
    console().print(table(["engine file", "kind", "size", "weights", ""], rows))
    prefix = "" if document.choice.engine else "none runs here: "
    say(f"{prefix}{document.choice.reason}")
    if document.assets:
        say("assets: " + ", ".join(f"{name} {size_text(size)}" for name, size in document.assets.items()))


def _print_parity(parity: ParityText, level: str) -> None:
    from aotc.parity.verdict import accuracy_text, ran

    rest = f", {parity.cases - parity.equal} refused or not compared" if parity.cases > parity.equal else ""
    of_graph = " of the graph" if ran(level) == "graph" else ""
    say(f"\nparity{of_graph} with {parity.reference}: {parity.equal} of {parity.cases} cases equal{rest}")
    if (worst := parity.worst) is not None:
        say(
            f"worst: {worst.ratio:.2f} of the bound; output {worst.output} on {worst.case}, "
            f"max abs {worst.max_abs:.2e}, bound {worst.bound} ({worst.engine})"
        )
    if parity.accuracy is not None:
        say(accuracy_text(parity.accuracy, parity.reference, level))


def _print_passes(document: InspectDocument) -> None:
    say("")
    rows: list[list[object]] = [[p.name, len(p.changes), len(p.refusals)] for p in document.passes]
    console().print(table(["pass", "changes", "refusals"], rows, numbers=1))
    refusing = dict.fromkeys(p.name.partition("{")[0] for p in document.passes if p.refusals)
    for name in refusing:
        say(f"aotc inspect {document.bundle} --why {name}")


def _print_why(document: InspectDocument, why: str) -> None:
    for entry in document.passes:
        say(f"{entry.name}: {len(entry.changes)} changes, {len(entry.refusals)} refusals")
        for change in entry.changes:
            say(f"  changed: {change}")
        for refusal in entry.refusals:
            say(f"  refused at {refusal.where}: {refusal.reason}")
    if not document.passes:
        say(f"no pass made or refused {why}: what the graph has was in the source")


def _print_operators(operators: OperatorCounts) -> None:
    from aotc.ir.operators import grouped

    modules = grouped(operators.modules, _screen_rows())
    rows: list[list[object]] = [
        [path or "(root)", sum(counts.values()), _counted(counts)] for path, counts in modules.items()
    ]
    rows.append(["all", sum(operators.total.values()), _counted(operators.total)])
    say("")
    console().print(table(["module", "nodes", "operators"], rows))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items())


def _screen_rows() -> int:
    if sys.stdout is None or not sys.stdout.isatty():
        return _ROWS
    return max(_FEWEST_ROWS, shutil.get_terminal_size().lines - 4)
