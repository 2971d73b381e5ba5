"""``aotc build``: a source in, a verified bundle out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc import optional
from aotc.cli.ci import ci_options
from aotc.cli.output import StageProgress, path_text, say
from aotc.cli.source_options import Sizes, dim_option, trust_options
from aotc.config import load_options

if TYPE_CHECKING:
    from aotc.parts import PartsResult
    from aotc.seal import BuildResult


@click.command("build", short_help="Compile a model and verify it against eager.")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of the bundle.")
@click.option("--target", help="What the engine runs on: ort-cpu (the default), or tensorrt-rtx:sm_86,sm_89.")
@click.option("--precision", type=click.Choice(["fp32", "fp16"]), help="What is computed in (default fp32).")
@click.option(
    "--accept",
    type=click.Choice(["graph"]),
    help="Publish an engine that cannot be run here, of which only the graph was verified.",
)
@click.option(
    "--inputs",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Example inputs of an ONNX file (.npz, arrays by input name).",
)
@click.option("--threads", type=click.IntRange(1), help="Threads of the engine while it is checked.")
@click.option(
    "--validate",
    type=click.Choice(["off", "region", "each"]),
    help="Run what passes rewrote (region); also the whole model after each (each).",
)
@click.option(
    "--disable", multiple=True, metavar="PASS", help="Leave a pass out; may be given several times."
)
@click.option("--expect-fused", metavar="OP=N,...", help="Fail unless the graph has N of an operator.")
@click.option("--dump-dir", type=click.Path(path_type=Path), help="Write the graph after each pass here.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the drawn inputs (default 0).")
@dim_option
@trust_options
@ci_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    source: Path, out: Path, inputs: Path | None, sizes: dict[str, Sizes], as_json: bool, **flags: Any
) -> None:
    """Compile SOURCE and publish a bundle, if and only if it computes what eager computes.

    SOURCE is a Python file that defines model() and inputs(), a function package.module:factory beside such
    inputs(), a Hugging Face or timm folder (config.json and weights), an ONNX file, or a .pt2 program. Where
    model() returns a dict, each of its modules becomes a bundle in OUT; model.py:PART builds one alone.
    """
    options = load_options(flags, Path.cwd())
    optional.require_compiler()
    from aotc import parts, pipeline
    from aotc.bundle import REPORT
    from aotc.cli.arrays import read_npz
    from aotc.cli.verdicts import show_verdict, verified
    from aotc.export.source import PartsSource
    from aotc.parity.failure import ParityError
    from aotc.sources import open_source

    try:
        with StageProgress() as progress:
            progress("load", "")
            given = read_npz(inputs) if inputs is not None else None
            opened = open_source(source, given, sizes, options)
            result: BuildResult | PartsResult
            if isinstance(opened, PartsSource):
                result = parts.build(opened, options, out, progress)
            else:
                result = pipeline.build(opened, options, out, progress)
    except ParityError as error:
        show_verdict(error.verdict, as_json=as_json, seconds=progress.seconds)
        raise
    digest = result.description.digest
    show_verdict(
        result.verdict,
        as_json=as_json,
        bundle=path_text(out),
        digest=digest,
        notes=tuple(result.notes),
        seconds=progress.seconds,
        sizes=_sizes(result),
    )
    if not as_json:
        say(f"{verified(result.verdict)}: {out} (digest {digest[:12]})")
        say(f"report: {out / REPORT}")


def _sizes(result: BuildResult | PartsResult) -> dict[str, int]:
    """Return the bytes of engines and weights by file, also of parts."""
    from aotc.parts import PartsResult

    bundles = result.parts if isinstance(result, PartsResult) else {"": result}
    return {
        f"{part}/{name}".removeprefix("/"): entry.size
        for part, built in bundles.items()
        for name, entry in built.description.files.items()
        if "/" not in name
    }
