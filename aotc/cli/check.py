"""``aotc check``: a bundle again, on its golden inputs or against eager; or one saved input set."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aotc.cli.output import StageProgress, console, print_json
from aotc.errors import UsageError, VerdictError

if TYPE_CHECKING:
    from aotc.parity.inputs import Feeds
    from aotc.parity.verdict import Verdict


@click.command("check", short_help="Verify a bundle again.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--inputs", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Only these inputs (.npz)."
)
@click.option("--threads", type=click.IntRange(1), help="Threads of the engine.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the drawn inputs (default 0).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    paths: tuple[Path, ...], inputs: Path | None, threads: int | None, seed: int, as_json: bool
) -> None:
    """Verify a bundle again.

    \b
    aotc check DIR                         replay its golden inputs; needs neither torch nor onnx
    aotc check DIR SOURCE                  run eager again, on every case of the gate
    aotc check [DIR] SOURCE --inputs FILE  only the inputs in FILE; without DIR, build first, publish nothing
    """
    from aotc.cli.verdicts import print_verdict, verdict_json

    directory = next((path for path in paths if path.is_dir()), None)
    source = next((path for path in paths if path.is_file()), None)
    if len(paths) != (directory is not None) + (source is not None):
        raise UsageError("aotc check takes one bundle folder and one source file at most")
    only = _read(inputs) if inputs is not None else None
    with StageProgress() as progress:
        verdict, digest = _verdict(directory, source, only, threads, seed, progress)
    if as_json:
        print_json(verdict_json(verdict, bundle=str(directory) if directory else None, digest=digest))
    else:
        print_verdict(console(), verdict)
    if not verdict.passed:
        engine, case = verdict.worst()
        raise VerdictError(
            f"{case.outcome} on {case.label}: {case.detail}"
            if not case.passed
            else "nothing could be compared",
            slug="parity",
            where=engine.engine,
        )
    if not as_json:
        click.echo("verified" + (" against eager" if source else " on golden inputs"))


def _verdict(
    directory: Path | None,
    source: Path | None,
    only: Feeds | None,
    threads: int | None,
    seed: int,
    progress: StageProgress,
) -> tuple[Verdict, str | None]:
    from aotc import replay

    if directory is not None and source is None:
        if only is not None:
            raise UsageError("--inputs needs the source file: eager says what is right", hint="add SOURCE")
        verdict, description = replay.check_golden(directory, threads, progress)
        return verdict, description.digest
    from aotc.export.source import load_source

    assert source is not None
    loaded = load_source(source)
    if directory is not None:
        verdict, description = replay.check_source(
            directory, loaded, threads=threads, seed=seed, only=only, progress=progress
        )
        return verdict, description.digest
    if only is None:
        raise UsageError("there is no bundle to check", hint=f"aotc build {source} -o DIR")
    return _build_and_check(loaded, only, threads, progress), None


def _build_and_check(source: object, only: Feeds, threads: int | None, progress: StageProgress) -> Verdict:
    """Build into a folder that goes away, and judge only the given inputs."""
    from aotc.config import load_options
    from aotc.parity.failure import ParityError
    from aotc.pipeline import build

    options = load_options({"threads": threads}, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="aotc-") as scratch:
        try:
            return build(source, options, Path(scratch) / "bundle", progress, only=only).verdict  # type: ignore[arg-type]
        except ParityError as error:
            return error.verdict


def _read(path: Path) -> Feeds:
    from aotc.cli.arrays import read_npz

    return read_npz(path)
