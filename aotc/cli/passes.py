"""``aotc passes``: what each pass rewrites, requires and refuses."""

from __future__ import annotations

import click

from aotc.cli.output import console, print_json, table


@click.command("passes", short_help="List the passes.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str | None, as_json: bool) -> None:
    """List the passes in the order in which they run, or show all about the pass NAME."""
    from aotc.pipeline import LOWER, OPTIMISE
    from aotc.rewrite.catalogue import sections, summary
    from aotc.rewrite.registry import find

    stages = [("optimise", p) for p in OPTIMISE]
    stages += [(f"lower {target}", p) for target, passes in LOWER.items() for p in passes]
    if name is not None:
        chosen = find(name, [type(p) for _, p in stages])
        stages = [next((stage, p) for stage, p in stages if type(p) is chosen)]
    if as_json:
        documents = [
            {
                "stage": stage,
                "name": p.name(),
                "text": str(p),
                "summary": summary(type(p)),
                **sections(type(p)),
            }
            for stage, p in stages
        ]
        print_json({"schema_version": 1, "passes": documents})
        return
    if name is None:
        rows: list[list[object]] = [[stage, str(p), summary(type(p))] for stage, p in stages]
        console().print(table(["stage", "pass", "what it does"], rows))
        return
    for _, current in stages:
        click.echo(f"{current}: {summary(type(current))}")
        for title, text in sections(type(current)).items():
            click.echo(f"\n{title}: {text}")
