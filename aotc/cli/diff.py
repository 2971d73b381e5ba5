"""``aotc diff``: what of one bundle is not as in another."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.ci import github_option
from aotc.cli.output import console, path_text, print_json, say, table
from aotc.errors import MissingError, VerdictError
from aotc.optional import how_to_install

if TYPE_CHECKING:
    from aotc.diff import AnyDiff, BundleDiff, Difference

_ROWS = 40


def _sections(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the sections of a list with commas.

    Raises:
        click.BadParameter: A name that is none; says which one was meant.
    """
    from aotc.diff import SECTIONS

    names = tuple(dict.fromkeys(name.strip() for name in value.split(","))) if value is not None else ()
    for name in names:
        if name not in SECTIONS:
            near = difflib.get_close_matches(name, SECTIONS, n=1)
            meant = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(SECTIONS)}"
            raise click.BadParameter(f"there is no '{name}' to compare; {meant}")
    return names


@click.command("diff", short_help="Compare two bundles.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--fail-on",
    callback=_sections,
    metavar="NAMES",
    help="Exit 1 if one of these changed, with commas between them: signature, ops, weights, precision, "
    "decisions, producer, verdict, size.",
)
@github_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(a: Path, b: Path, fail_on: tuple[str, ...], as_json: bool) -> None:
    """Compare the bundles A and B, after verifying every byte of them.

    Told are signature, operators by module, weights by name, precision, decisions, versions, verdicts and
    sizes.
    """
    from aotc.cli.diff_document import DiffDocument
    from aotc.diff import diff

    found = diff(a, b)
    document = DiffDocument(bundle_a=path_text(a), bundle_b=path_text(b), same=found.a == found.b, diff=found)
    if as_json:
        print_json(document.to_dict())
    elif document.same:
        say(f"the same: digest {found.a}")
    else:
        say(f"a: {a}, digest {found.a}\nb: {b}, digest {found.b}")
        _print(found)
    _judge(found.changed, found.not_compared, fail_on, f"aotc diff {a} {b} --json")


def _judge(changed: Sequence[str], unknown: Sequence[str], fail_on: Sequence[str], command: str) -> None:
    if failed := [section for section in fail_on if section in changed]:
        raise VerdictError(
            f"changed: {', '.join(failed)}", slug="diff", hint=f"{command} lists every difference"
        )
    if missing := [section for section in fail_on if section in unknown]:
        raise MissingError(
            f"cannot tell whether {', '.join(missing)} changed: onnx is not installed",
            hint=how_to_install("build"),
        )


def _print(found: AnyDiff) -> None:
    from aotc.diff import BundleDiff

    if isinstance(found, BundleDiff):
        _print_graph(found)
        return
    _print_differences("signature", found.signature)
    _print_differences("decisions", found.decisions)
    _print_differences("verdict", found.verdict)
    for name, part in found.parts.items():
        say(f"\npart {name}: " + ("the same" if part.a == part.b else f"digest {part.a} and {part.b}"))
        if part.a != part.b:
            _print_graph(part)


def _print_graph(found: BundleDiff) -> None:
    from aotc.diff import SECTIONS

    _print_differences("signature", found.signature)
    _rows(
        "ops",
        ["module", "operator", "a", "b"],
        ((o.module or "(root)", o.operator, o.a, o.b) for o in found.ops),
    )
    if found.rewired:
        say("\nops: the same, in another order, with other attributes or other inputs, in")
        say("  " + ", ".join(module or "(root)" for module in found.rewired[:_ROWS]))
    _print_weights(found)
    for section in ("precision", "decisions", "producer", "verdict"):
        _print_differences(section, getattr(found, section))
    _rows(
        "size",
        ["file that differs", "bytes in a", "in b"],
        ((f.file, _or(f.a), _or(f.b)) for f in found.files),
    )
    same = [name for name in SECTIONS if name not in (*found.changed, *found.not_compared)]
    say(f"\nchanged: {', '.join(found.changed) or 'nothing'}; the same: {', '.join(same) or 'nothing'}")
    for note in found.notes:
        say(f"note: {note}")


def _print_weights(found: BundleDiff) -> None:
    differing = [weight for weight in found.weights if weight.status != "equal"]
    rows = [(weight.name, weight.status, _or(weight.a), _or(weight.b)) for weight in differing]
    equal = len(found.weights) - len(differing)
    _rows(f"weights: {equal} equal, {len(differing)} not", ["weight", "", "a", "b"], rows)


def _print_differences(section: str, differences: Sequence[Difference]) -> None:
    _rows(section, ["what", "a", "b"], ((each.what, _or(each.a), _or(each.b)) for each in differences))


def _rows(title: str, columns: list[str], rows: Iterable[Sequence[object]]) -> None:
    listed = [list(row) for row in rows]
    if listed:
        say(f"\n{title}")
        console().print(table(columns, listed[:_ROWS]))
        if len(listed) > _ROWS:
            say(f"{len(listed) - _ROWS} more; --json lists all")


def _or(value: object) -> object:
    return "-" if value is None else value
