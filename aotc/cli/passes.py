"""``aotc passes``: what each pass rewrites, requires and refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from aotc.cli.document import Document, Part
from aotc.cli.output import console, print_json, say, table

if TYPE_CHECKING:
    from aotc.rewrite import Pass


class PassText(Part):
    """One pass: where it runs, its name with options, and the sections of its documentation."""

    stage: str
    name: str
    text: str
    summary: str
    sections: dict[str, str]


class PassesDocument(Document):
    """What ``passes`` prints, in the order in which they run."""

    passes: tuple[PassText, ...]


@click.command("passes", short_help="List the passes.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str | None, as_json: bool) -> None:
    """List the passes in the order in which they run, or show all about the pass NAME."""
    document = PassesDocument(passes=tuple(_passes(name)))
    if as_json:
        print_json(document.to_dict())
    elif name is None:
        rows: list[list[object]] = [[p.stage, p.text, p.summary] for p in document.passes]
        console().print(table(["stage", "pass", "what it does"], rows))
    else:
        _print_one(document.passes[0])


def _passes(name: str | None) -> list[PassText]:
    from aotc.optional import require_compiler

    require_compiler()
    from aotc.pipeline import CAST, LOWER, OPTIMISE, RAISE
    from aotc.rewrite.registry import find

    stages = [("raise", p) for p in RAISE] + [("optimise", p) for p in OPTIMISE]
    stages += [(f"lower {target}", p) for target, passes in LOWER.items() for p in passes]
    stages += [(f"cast {precision}", p) for precision, passes in CAST.items() for p in passes]
    if name is not None:
        chosen = find(name, [type(p) for _, p in stages])
        stages = [next((stage, p) for stage, p in stages if type(p) is chosen)]
    return [_text(stage, current) for stage, current in stages]


def _text(stage: str, current: Pass) -> PassText:
    from aotc.rewrite.catalogue import sections, summary

    cls = type(current)
    return PassText(
        stage=stage, name=cls.name(), text=str(current), summary=summary(cls), sections=sections(cls)
    )


def _print_one(current: PassText) -> None:
    say(f"{current.text}: {current.summary}")
    for title, text in current.sections.items():
        say(f"\n{title}: {text}")
