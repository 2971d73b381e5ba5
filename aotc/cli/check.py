"""``aotc check``: a bundle again, on its golden inputs or against eager; or one saved input set."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from aotc.cli.arrays import read_npz
from aotc.cli.ci import ci_options
from aotc.cli.output import StageProgress, path_text, say
from aotc.cli.source_options import Sizes, SourcePath, dim_option, trust_options
from aotc.config import Options, load_options
from aotc.errors import UnexecutedError, UsageError
from aotc.text import shown_path

if TYPE_CHECKING:
    from aotc.export.source import PartsSource
    from aotc.parity.findings import AnyFinding
    from aotc.parity.inputs import Feeds
    from aotc.parity.verdict import AnyVerdict
    from aotc.sources import AnySource

Judged = tuple["AnyVerdict", str | None]
"""A verdict, and the digest of the bundle if there is one."""


@click.command("check", short_help="Verify a bundle again.")
@click.argument("paths", nargs=-1, required=True, type=SourcePath(path_type=Path, exists=True))
@click.option(
    "--inputs", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Only these inputs (.npz)."
)
@click.option("--threads", type=click.IntRange(1), help="Threads of the engine.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the drawn inputs (default 0).")
@click.option(
    "--bisect",
    "mode",
    is_flag=False,
    flag_value="values",
    type=click.Choice(["values", "passes"]),
    help="If it fails: find the first wrong value (the default), or the pass that made it wrong.",
)
@dim_option
@trust_options
@ci_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    paths: tuple[Path, ...],
    inputs: Path | None,
    mode: Literal["values", "passes"] | None,
    threads: int | None,
    seed: int,
    sizes: dict[str, Sizes],
    as_json: bool,
    **trust: bool | None,
) -> None:
    """Verify a bundle again.

    \b
    aotc check DIR                         replay its golden inputs; needs neither torch nor onnx
    aotc check DIR SOURCE                  run eager (or the ONNX file) again, on every case of the gate
    aotc check [DIR] SOURCE --inputs FILE  only the inputs in FILE; without DIR, build first, publish nothing
    aotc check [DIR] SOURCE ... --bisect   and if it fails, say which module's value is the first wrong one
    """  # noqa: D301 - click takes the backspace character, not its escape, for a block to keep
    from aotc.cli.verdicts import show_verdict, verified
    from aotc.parity.failure import ParityError

    directory, source = _sort(paths)
    if source is None and mode is not None:
        raise UsageError(
            "--bisect needs the source file: eager says what is right",
            hint=f"aotc check {directory} SOURCE --bisect",
        )
    finding: AnyFinding | None = None
    notes: tuple[str, ...] = ()
    with StageProgress() as progress:
        if source is None:
            verdict, digest = _replay(directory, inputs, threads, progress)
        else:
            options = load_options({"threads": threads, "seed": seed, **trust}, Path.cwd())
            opened = _open(directory, source, inputs, sizes, options)
            verdict, digest = _judge(directory, opened, inputs, options, progress)
            if mode is not None and not verdict.passed:
                from aotc.cli.bisect import REMARKS, search

                finding = search(mode, verdict, directory, opened, inputs, options, progress)
                notes = () if finding else (REMARKS[mode],)
    bundle = path_text(directory) if directory is not None else None
    show_verdict(
        verdict,
        as_json=as_json,
        bundle=bundle,
        digest=digest,
        notes=notes,
        finding=finding,
        refused=verdict.level == "graph",
        seconds=progress.seconds,
    )
    if not verdict.passed:
        saved = directory if source is not None and inputs is None else None
        hint = _hint(verdict, directory, source, inputs, mode)
        raise ParityError(verdict, where=_place(verdict, saved), hint=hint)
    if verdict.level == "graph":
        raise _unexecuted(verdict, directory, source is None)
    if not as_json:
        say("verified on golden inputs" if source is None else verified(verdict))


def _unexecuted(verdict: AnyVerdict, directory: Path | None, replayed: bool) -> UnexecutedError:
    """Return what a check could tell, and what not, of an engine that this machine does not run."""
    what = "golden inputs" if replayed else "every case of the gate"
    error = UnexecutedError(
        f"only the graph was checked (level graph), and agrees on {what}: the engine itself is not run here",
        where=None if directory is None else f"{directory}, every byte of which is the one that was built",
        hint="run the engine on its device: nothing here tells whether it computes what its graph says",
    )
    error.verdict = verdict
    return error


def _hint(
    verdict: AnyVerdict, directory: Path | None, source: Path | None, inputs: Path | None, mode: str | None
) -> str:
    if source is None:
        return f"aotc check {directory} SOURCE, which runs {verdict.reference} on every case"
    if mode is None and verdict.with_failed_case is not None:
        given = f" --inputs {inputs}" if inputs is not None else ""
        paths = " ".join(str(path) for path in (directory, source) if path is not None)
        return f"aotc check {paths}{given} --bisect, which finds the first wrong value"
    if directory is None:
        stage = f"aotc check {source} --inputs {inputs} --bisect passes, which names the stage at fault"
        return stage if mode == "values" else "look for what forward does only while exported, or report it"
    return "aotc build again, if the weights changed since; model() must make the same ones at every call"


def _place(verdict: AnyVerdict, saved: Path | None) -> str | None:
    """Return the engine file of the worst case, and where its inputs are if those of ``saved`` were saved.

    None where the metric of all parts is at fault.
    """
    from aotc.parity.failure import failed_inputs
    from aotc.parity.verdict import PartsVerdict

    part = verdict.failed if isinstance(verdict, PartsVerdict) else None
    one = verdict.parts.get(part or "") if isinstance(verdict, PartsVerdict) else verdict
    if one is None:
        return None
    engine = "/".join(filter(None, [part, one.worst()[0].engine]))
    if saved is None or one.with_failed_case is None:
        return engine
    return f"{engine}; inputs saved to {shown_path(failed_inputs(saved / part if part else saved))}"


def _sort(paths: tuple[Path, ...]) -> tuple[Path | None, Path | None]:
    """Return the bundle folder and the source among ``paths``."""
    directory = next((path for path in paths if path.is_dir() and not _is_source(path)), None)
    source = next((path for path in paths if _is_source(path)), None)
    if len(paths) != (directory is not None) + (source is not None):
        raise UsageError(
            "aotc check takes one bundle folder and one source at most", hint="aotc check --help"
        )
    return directory, source


def _is_source(path: Path) -> bool:
    """Return whether ``path`` is a file, or a Hugging Face folder and no bundle."""
    return not path.is_dir() or ((path / "config.json").is_file() and not (path / "bundle.json").is_file())


def _replay(
    directory: Path | None, inputs: Path | None, threads: int | None, progress: StageProgress
) -> Judged:
    from aotc.parts import check_golden

    assert directory is not None
    if inputs is not None:
        raise UsageError(
            "--inputs needs the source, which says what is right",
            hint=f"aotc check {directory} SOURCE --inputs {inputs}",
        )
    return check_golden(directory, threads, progress)


def _open(
    directory: Path | None, path: Path, inputs: Path | None, sizes: dict[str, Sizes], options: Options
) -> AnySource | PartsSource:
    """Open the source; without a bundle, as the source of a build on the given inputs."""
    from aotc.optional import require_compiler

    if directory is None and inputs is None:
        raise UsageError("there is no bundle to check", hint=f"aotc build {path} -o DIR")
    if directory is not None and sizes:
        raise UsageError("a bundle has sizes of its own", slug="dim", hint="leave out --dim, or the bundle")
    require_compiler()
    from aotc.sources import is_onnx, one_graph, open_source, open_source_of

    if directory is not None:
        return open_source_of(directory, path, options)
    given = read_npz(inputs) if inputs is not None and is_onnx(path) else None
    return one_graph(open_source(path, given, sizes, options))


def _judge(
    directory: Path | None,
    source: AnySource | PartsSource,
    inputs: Path | None,
    options: Options,
    progress: StageProgress,
) -> Judged:
    """Compare with eager: the bundle, or without one a build of its own."""
    from aotc.parts import check_source
    from aotc.sources import one_graph

    only = read_npz(inputs) if inputs is not None else None
    if directory is None:
        assert only is not None
        return _build_and_judge(one_graph(source), only, options, progress), None
    return check_source(
        directory, source, threads=options.threads, seed=options.seed, only=only, progress=progress
    )


def _build_and_judge(source: AnySource, only: Feeds, options: Options, progress: StageProgress) -> AnyVerdict:
    """Build into a folder that goes away, and judge only the given inputs."""
    from aotc.parity.failure import ParityError
    from aotc.pipeline import build

    with tempfile.TemporaryDirectory(prefix="aotc-") as scratch:
        try:
            return build(source, options, Path(scratch) / "bundle", progress, only=only).verdict
        except ParityError as error:
            return error.verdict
