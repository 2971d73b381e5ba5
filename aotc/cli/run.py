"""``aotc run``: a bundle on inputs from a file, or on drawn ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.document import Document, Part
from aotc.cli.output import console, path_text, print_json, say, table
from aotc.errors import UsageError

if TYPE_CHECKING:
    from aotc.bundle import OpenBundle
    from aotc.cli.arrays import Array
    from aotc.parity.inputs import Feeds


class OutputSummary(Part):
    """One output: range and mean are of the finite values, null if there is none."""

    dtype: str
    shape: tuple[int, ...]
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    not_finite: int


class RunDocument(Document):
    """What ``run`` prints: which engine ran and why, the time of its first run, the outputs by name."""

    bundle: str
    engine: str
    ms: float
    outputs: dict[str, OutputSummary]


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
    if draw == (file is not None):
        raise UsageError("give either --input FILE or --random", hint="aotc run --help")
    outputs, engine, milliseconds = _run(bundle, file, threads, seed)
    if out is not None:
        from aotc.parity.golden import write_arrays

        write_arrays(out, outputs)
    document = RunDocument(
        bundle=path_text(bundle),
        engine=engine,
        ms=milliseconds,
        outputs={name: _summary(value) for name, value in outputs.items()},
    )
    if as_json:
        print_json(document.to_dict())
    else:
        _print(document)


def _run(
    bundle: Path, file: Path | None, threads: int | None, seed: int
) -> tuple[dict[str, Array], str, float]:
    """Return outputs, which engine ran, and milliseconds."""
    from aotc.bundle import open_bundle
    from aotc.cli.arrays import read_npz
    from aotc.runtime import load_opened

    with open_bundle(bundle) as opened, load_opened(opened, threads=threads) as engine:
        feeds = read_npz(file) if file is not None else _drawn(opened, seed)
        start = time.perf_counter()
        outputs = engine.run_flat(feeds)
        return outputs, engine.selection, (time.perf_counter() - start) * 1e3


def _drawn(opened: OpenBundle, seed: int) -> Feeds:
    from aotc.parity.golden_set import observed_inputs
    from aotc.parity.inputs import generate

    return next(generate(opened.description.signature, observed_inputs(opened), seed=seed)).feeds


def _summary(array: Array) -> OutputSummary:
    from aotc.cli.arrays import summary

    return OutputSummary.model_validate(summary(array))


def _print(document: RunDocument) -> None:
    rows = [[name, *_cells(figures)] for name, figures in document.outputs.items()]
    console().print(table(["output", "dtype", "shape", "min", "max", "mean", "NaN/Inf"], rows, numbers=3))
    say(f"{document.ms:.1f} ms, first run ({document.engine})", err=True)


def _cells(figures: OutputSummary) -> list[object]:
    numbers = ["-" if x is None else f"{x:.6g}" for x in (figures.min, figures.max, figures.mean)]
    return [figures.dtype, list(figures.shape), *numbers, figures.not_finite]
