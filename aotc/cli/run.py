"""``aotc run``: a bundle on inputs from a file, or on drawn ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.output import console, print_json, table
from aotc.errors import UsageError

if TYPE_CHECKING:
    from aotc.parity.inputs import Feeds


@click.command("run", short_help="Run a bundle.")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--input", "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Inputs (.npz)."
)
@click.option("--random", "draw", is_flag=True, help="Draw inputs that the signature allows.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the outputs here (.npz).")
@click.option("--threads", type=click.IntRange(1), help="Threads of the engine.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of --random (default 0).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    bundle: Path,
    file: Path | None,
    draw: bool,
    out: Path | None,
    threads: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Run BUNDLE once and show its outputs."""
    from aotc.bundle import open_bundle
    from aotc.cli.arrays import read_npz, summary, write_npz
    from aotc.runtime import load_opened

    if draw == (file is not None):
        raise UsageError("give either --input FILE or --random")
    with open_bundle(bundle) as opened, load_opened(opened, threads=threads) as engine:
        feeds = read_npz(file) if file is not None else _drawn(opened, seed)
        start = time.perf_counter()
        outputs = engine.run_flat(feeds)
        milliseconds = (time.perf_counter() - start) * 1e3
        selection = engine.selection
    if out is not None:
        write_npz(out, outputs)
    figures = {name: summary(value) for name, value in outputs.items()}
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "bundle": str(bundle),
                "engine": selection,
                "ms": milliseconds,
                "outputs": figures,
            }
        )
        return
    rows: list[list[object]] = [
        [
            name,
            f["dtype"],
            f["shape"],
            *(f"{f[k]:.6g}" if k in f else "-" for k in ("min", "max", "mean")),
            f["not_finite"],
        ]
        for name, f in figures.items()
    ]
    console().print(table(["output", "dtype", "shape", "min", "max", "mean", "NaN/Inf"], rows, numbers=3))
    click.echo(f"{milliseconds:.1f} ms, first run ({selection})", err=True)


def _drawn(opened: object, seed: int) -> Feeds:
    from aotc.bundle import OpenBundle
    from aotc.parity.golden_set import golden_inputs
    from aotc.parity.inputs import generate

    assert isinstance(opened, OpenBundle)
    observed = golden_inputs(opened)
    return next(generate(opened.description.signature, observed, seed=seed)).feeds
