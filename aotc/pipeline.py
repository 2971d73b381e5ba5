"""What the compiler does, on one screen: the passes, and the stages from source to bundle.

Data moves down this page and never back up.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aotc_passes import PASSES
from aotc_passes.lower_ort import ExactIntegerSum, ExpandAttentionMask, MishByExp, QuickGelu, StableGroupNorm
from aotc_passes.optimise import (
    EliminateDeadCode,
    FoldBatchNorm,
    FoldConstants,
    ShareDuplicates,
    SimplifyReshape,
)
from aotc_passes.quantise import CastToFp16
from aotc_passes.raise_ import RaiseActivations, RaiseAttention, RaiseNormalisations, RaiseRotaryEmbeddings

from aotc.backends.build import build_engines
from aotc.backends.ort_cpu.emit import emit_portable
from aotc.bundle import Staging
from aotc.config import Options
from aotc.ir.operators import count_by_module
from aotc.optional import require_backend
from aotc.oracle import Oracle
from aotc.parity.by_module import ModuleResults
from aotc.parity.cases import all_cases
from aotc.parity.conditions import insisted, refuse_broken
from aotc.parity.inputs import Feeds
from aotc.parity.reference import write_references
from aotc.parity.sizes import unread_guards
from aotc.parity.stage import engine_accuracy, judge_engines, refuse_unexecuted, score, verdict_of
from aotc.parity.tolerance import configured
from aotc.parity.validate import pass_checks
from aotc.report.command import build_command
from aotc.report.content import Report
from aotc.report.failed import failed_gate
from aotc.rewrite import Context, DumpObserver, Expectation, Observer, Pass, run_passes
from aotc.rewrite.registry import find
from aotc.seal import BuildResult, draft, seal
from aotc.signature import Signature
from aotc.sources import AnySource, import_source
from aotc.target import parse_target

RAISE: tuple[Pass, ...] = (
    EliminateDeadCode(),
    FoldConstants(),
    RaiseNormalisations(),
    RaiseActivations(),
    RaiseRotaryEmbeddings(),
    RaiseAttention(),
)
OPTIMISE: tuple[Pass, ...] = (
    FoldBatchNorm(),
    SimplifyReshape(),
    ShareDuplicates(),
    EliminateDeadCode(),
)
LOWER: dict[str, tuple[Pass, ...]] = {
    "ort-cpu": (
        ExpandAttentionMask(),
        ExactIntegerSum(),
        StableGroupNorm(),
        QuickGelu(),
        MishByExp(),
        ShareDuplicates(),
    ),
    "tensorrt-rtx": (ExpandAttentionMask(), ShareDuplicates()),
}
CAST: dict[str, tuple[Pass, ...]] = {"fp32": (), "fp16": (CastToFp16(), ShareDuplicates())}

Progress = Callable[[str, str], None]
"""Told (stage, detail); detail is empty when the stage begins."""


def passes_of(options: Options) -> tuple[Pass, ...]:
    """Return the pipeline of a target and a precision, without the passes that the user disabled."""
    lower, cast = LOWER[parse_target(options.target).name], CAST[options.precision]
    return _enabled(RAISE + OPTIMISE + lower + cast, options)


def _enabled(passes: tuple[Pass, ...], options: Options) -> tuple[Pass, ...]:
    off = {find(name, PASSES) for name in options.disable}
    return tuple(each for each in passes if type(each) not in off)


def observers(options: Options) -> list[Observer]:
    """Return what watches the passes: the dump of graphs, and what the graph must have before lowering."""
    watch: list[Observer] = [DumpObserver(options.dump_dir)] if options.dump_dir else []
    canonical = len(_enabled(RAISE + OPTIMISE, options))
    return watch + (
        [Expectation(options.expect_fused, max(canonical - 1, 0))] if options.expect_fused else []
    )


def build(
    source: AnySource,
    options: Options,
    out: Path,
    progress: Progress = lambda *_: None,
    only: Feeds | None = None,
    saved: Path | None = None,
) -> BuildResult:
    """Compile ``source`` and publish a bundle at ``out``, if and only if it computes what eager computes.

    ``only`` replaces every case of the gate by one input set: what ``aotc check --inputs`` replays. ``saved``
    is where the worst inputs of a failed gate go instead of beside ``out``, and beside them the report.

    Raises:
        RefusedError: This model cannot be compiled.
        ParityError: The engine differs from eager; the worst inputs and a report are saved beside ``out``.
        UnexecutedError: The engine cannot be run here, and its graph alone was not accepted.
        AotcError: Bad configuration or source, missing packages, failing storage.
    """
    clock, target = _Clock(progress), parse_target(options.target)
    require_backend(target)
    passes = passes_of(options)
    oracle = Oracle(options.threads or 0)
    with (
        Staging(out) as staging,
        tempfile.TemporaryDirectory(dir=staging.destination.parent, prefix=".aotc-") as scratch,
    ):
        cases = Path(scratch)

        clock.stage("import")
        imported = import_source(source, oracle)
        model, eager, signature = imported.model, imported.reference, imported.reference.signature
        before = count_by_module(model)

        clock.stage("eager")
        bounds = configured(options.tolerance, signature, options.precision)
        wanted = all_cases(signature, imported.given, seed=options.seed, only=only)
        references = write_references(eager, wanted, cases, bounds, clock.detail)
        signature = signature.with_conditions(insisted(signature, references))
        metric = score(source.accuracy, eager.call) if source.accuracy and not only else None

        clock.stage("optimise")
        checks = pass_checks(options.validate_passes, oracle, references, cases, signature, bounds)
        watch = observers(options)
        records = run_passes(model, passes, Context(oracle), checks=checks, observers=watch)

        clock.stage("emit")
        portable = emit_portable(model, staging.path)
        after = count_by_module(model)
        inside = ModuleResults.record(model, imported.inner, signature, references, cases)
        notes = (*source.notes, *imported.notes, *eager.untried(), *inside.notes, *_unread(signature))
        reference = eager.name
        del eager, model, imported, checks
        gc.collect()
        engines = (portable, *build_engines(staging.path, portable, signature, target, clock.detail))

        clock.stage("check")
        contents = draft(staging, source.name, options, signature, engines, records)
        judged = judge_engines(staging.path, contents, cases, references, options.threads, clock.detail)
        judged, broken = refuse_broken(signature, references, judged)
        accuracy = engine_accuracy(source.accuracy, metric, staging.path, contents, options.threads)
        verdict = verdict_of(contents.level, reference, judged, accuracy, clock.seconds())
        modules = inside.measure(staging.path, portable, options.threads)
        command = build_command(source.given, options, out)
        report = Report(contents, verdict, before, after, notes, command, modules=modules)
        if not verdict.passed:
            saved = saved or out.with_name(f"{out.name}.failed.npz")
            raise failed_gate(report, cases, references, saved, source.path, staging.path / portable.file)

        refuse_unexecuted(verdict, options.accept, target)

        clock.stage("seal")
        description = seal(staging, report, references, cases, broken, source.assets)
    return BuildResult(out, description, verdict, tuple(records), notes)


def _unread(signature: Signature) -> tuple[str, ...]:
    text = "the graph is for sizes where {}: a condition that aotc cannot evaluate, and does not check"
    return tuple(map(text.format, unread_guards(signature)))


class _Clock:
    """Times the stages and tells of them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._starts: list[tuple[str, float]] = []

    def stage(self, name: str) -> None:
        self._starts.append((name, time.perf_counter()))
        self._progress(name, "")

    def detail(self, text: str) -> None:
        self._progress(self._starts[-1][0], text)

    def seconds(self) -> dict[str, float]:
        ends = [start for _, start in self._starts[1:]] + [time.perf_counter()]
        return {name: round(end - start, 3) for (name, start), end in zip(self._starts, ends, strict=True)}
