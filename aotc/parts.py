"""``aotc build`` of a model in parts, each a bundle of its own; ``aotc check`` of these and of one graph."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aotc import replay
from aotc.bundle import (
    REPORT,
    Checked,
    OpenBundle,
    OpenParts,
    PartEntry,
    PartsContents,
    PartsDescription,
    Staging,
    open_any,
    open_bundle,
    seal_parts,
    single_graph,
    write_checked,
)
from aotc.config import Options
from aotc.errors import AotcError, CompatibilityError, UsageError
from aotc.parity.failure import ParityError
from aotc.parity.inputs import Feeds
from aotc.parity.stage import compare_accuracy, score
from aotc.parity.verdict import Accuracy, AnyVerdict, PartsVerdict, Verdict
from aotc.runtime import load_for_check

if TYPE_CHECKING:
    from aotc.export.source import PartsSource
    from aotc.seal import BuildResult
    from aotc.sources import AnySource

Progress = Callable[[str, str], None]
ACCURACY = "accuracy.json"
"""The figures of the source's metric, beside the parts."""


@dataclasses.dataclass(frozen=True)
class PartsResult:
    """A published bundle in parts; ``parts`` has the result of each."""

    directory: Path
    description: PartsDescription
    parts: Mapping[str, BuildResult]
    verdict: PartsVerdict

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the build has to say of each part."""
        return tuple(f"{part}: {note}" for part, result in self.parts.items() for note in result.notes)


def build(
    source: PartsSource, options: Options, out: Path, progress: Progress = lambda *_: None
) -> PartsResult:
    """Compile every part of ``source`` and publish them together at ``out``, or nothing.

    Raises:
        ParityError: A part, or the metric of all parts, differs from eager; the message names the part, and
            its worst inputs are saved beside ``out``.
        AotcError: As ``aotc.pipeline.build``; the message names the part.
    """
    _check_tolerance(options, source)
    results: dict[str, BuildResult] = {}
    with Staging(out) as staging:
        # Inside the staging folder: what a killed build leaves goes with it.
        with tempfile.TemporaryDirectory(dir=staging.path) as scratch:
            for part in source.parts:
                built = _build_part(source, part, options, Path(scratch), out, results, progress)
                built.directory.rename(staging.path / part)
                results[part] = dataclasses.replace(built, directory=out / part)
        verdicts = {part: result.verdict for part, result in results.items()}
        verdict = PartsVerdict(parts=verdicts)
        if source.accuracy is not None:
            progress("accuracy", "")
            with contextlib.ExitStack() as stack:
                opened = {p: stack.enter_context(open_bundle(staging.path / p)) for p in source.parts}
                verdict = PartsVerdict(parts=verdicts, accuracy=_accuracy(source, opened, options.threads))
            if not verdict.passed:
                raise ParityError(verdict, where=None, hint="aotc build --json shows every figure")
        description = _publish(staging, source.name, results, verdict.accuracy)
    return PartsResult(out, description, results, verdict)


def _build_part(
    source: PartsSource,
    part: str,
    options: Options,
    scratch: Path,
    out: Path,
    before: Mapping[str, BuildResult],
    progress: Progress,
) -> BuildResult:
    from aotc import pipeline  # not needed by those who only replay a bundle

    prefix = f"{part}."
    bounds = {n.removeprefix(prefix): b for n, b in options.tolerance.items() if n.startswith(prefix)}
    folder = options.dump_dir / part if options.dump_dir else None
    try:
        return pipeline.build(
            source.parts[part],
            options.model_copy(update={"tolerance": bounds, "dump_dir": folder}),
            scratch / part,
            _of_part(part, progress),
            saved=out.with_name(f"{out.name}.{part}.failed.npz"),
        )
    except AotcError as error:
        error.message = f"part '{part}': {error.message}"
        if isinstance(error, ParityError) and isinstance(error.verdict, Verdict):
            done = {name: result.verdict for name, result in before.items()}
            error.verdict = PartsVerdict(parts={**done, part: error.verdict})
        raise


def _check_tolerance(options: Options, source: PartsSource) -> None:
    for name in options.tolerance:
        if name.partition(".")[0] not in source.parts:
            raise UsageError(
                f"tolerance names the output '{name}', which is of no part",
                slug="config",
                hint=f"write PART.OUTPUT; parts: {', '.join(source.parts)}",
            )


def _publish(
    staging: Staging, name: str, results: Mapping[str, BuildResult], accuracy: Accuracy | None
) -> PartsDescription:
    from aotc.report.content import PartsReport  # not needed by those who only replay a bundle
    from aotc.report.html import render_parts

    figures = [REPORT, *([ACCURACY] if accuracy is not None else [])]
    if accuracy is not None:
        text = accuracy.model_dump_json(indent=2) + "\n"
        (staging.path / ACCURACY).write_text(text, encoding="utf-8")
    contents = PartsContents(
        name=name,
        parts={part: PartEntry(digest=results[part].description.digest) for part in sorted(results)},
    )
    verdicts = {part: result.verdict for part, result in results.items()}
    page = render_parts(PartsReport(name, seal_parts(contents).digest, verdicts, accuracy))
    (staging.path / REPORT).write_text(page, encoding="utf-8")
    return staging.publish_parts(contents.model_copy(update={"beside": staging.entries(*figures)}))


def _accuracy(source: PartsSource, bundles: Mapping[str, OpenBundle], threads: int | None) -> Accuracy | None:
    """Run the source's metric on eager, and on the engines of all parts."""
    from aotc.oracle import Oracle  # not needed by those who only replay a bundle
    from aotc.sources import reference_again

    if source.accuracy is None:
        return None
    oracle = Oracle(threads or 0)
    eager = {part: reference_again(source.parts[part], bundles[part], oracle)[0] for part in source.parts}
    metric = score(source.accuracy, {part: reference.call for part, reference in eager.items()})
    with contextlib.ExitStack() as stack:
        engines = {
            part: stack.enter_context(load_for_check(bundles[part], threads=threads)) for part in source.parts
        }
        return compare_accuracy(source.accuracy, metric, {part: e.run for part, e in engines.items()})


def check_golden(
    directory: Path, threads: int | None = None, progress: Progress = lambda *_: None
) -> tuple[AnyVerdict, str]:
    """Replay the golden inputs of a bundle, or of each of its parts; needs neither torch nor onnx.

    Records the result beside the bundle (``DIR.checked.json``).

    Returns:
        The verdict and the bundle's digest.

    Raises:
        AotcError: As ``aotc.load``.
    """
    progress("load", "")
    with open_any(directory) as opened:
        if isinstance(opened, OpenBundle):
            return replay.check_golden(opened, threads, progress), opened.description.digest
        verdicts = {
            part: replay.check_golden(bundle, threads, _of_part(part, progress))
            for part, bundle in opened.parts.items()
        }
        return _recorded(opened, PartsVerdict(parts=verdicts)), opened.description.digest


def check_source(
    directory: Path,
    source: AnySource | PartsSource,
    *,
    threads: int | None = None,
    seed: int = 0,
    only: Feeds | None = None,
    progress: Progress = lambda *_: None,
) -> tuple[AnyVerdict, str]:
    """Compare a bundle with eager again, on all cases of the gate or on one given input set.

    Returns:
        The verdict and the bundle's digest.

    Raises:
        UsageError: The source has parts and the bundle has none, or the other way round; or ``only`` is given
            for all parts together.
        CompatibilityError: The source is not the one that the bundle was built from.
        AotcError: As ``aotc.load`` and ``aotc.build``.
    """
    from aotc.export.source import PartsSource
    from aotc.sources import one_graph

    progress("load", "")
    with open_any(directory) as opened:
        if isinstance(opened, OpenParts) and isinstance(source, PartsSource) and only is None:
            return _check_parts(opened, source, threads, seed, progress), opened.description.digest
        verdict = replay.check_source(
            single_graph(opened),
            one_graph(source),
            threads=threads,
            seed=seed,
            only=only,
            progress=progress,
        )
        return verdict, opened.description.digest


def _check_parts(
    opened: OpenParts, source: PartsSource, threads: int | None, seed: int, progress: Progress
) -> PartsVerdict:
    if set(opened.parts) != set(source.parts):
        raise CompatibilityError(
            f"the source has the parts {', '.join(source.parts)}, the bundle {', '.join(opened.parts)}",
            where=source.path,
            hint="build the bundle again from this source",
        )
    verdicts = {
        part: replay.check_source(
            bundle, source.parts[part], threads=threads, seed=seed, progress=_of_part(part, progress)
        )
        for part, bundle in opened.parts.items()
    }
    accuracy = _accuracy(source, opened.parts, threads)
    return _recorded(opened, PartsVerdict(parts=verdicts, accuracy=accuracy))


def _of_part(part: str, progress: Progress) -> Progress:
    return lambda stage, detail: progress(f"{part} {stage}", detail)


def _recorded(opened: OpenParts, verdict: PartsVerdict) -> PartsVerdict:
    write_checked(
        opened.path,
        Checked(
            digest=opened.description.digest,
            verdict="pass" if verdict.passed else "fail",
            level=verdict.level,
        ),
    )
    return verdict
