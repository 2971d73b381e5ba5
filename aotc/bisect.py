"""``aotc check --bisect``: the first value of an engine that differs, or the pass that made it so."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnx_ir as ir

from aotc.backends.ort_cpu.build import specialise
from aotc.backends.ort_cpu.emit import emit_portable
from aotc.bundle import OpenBundle
from aotc.config import Options
from aotc.errors import AotcError, UsageError
from aotc.export.onnx_source import OnnxSource
from aotc.ir.prefix import cuts, needed, part
from aotc.oracle import Oracle
from aotc.parity.findings import AnyFinding, Finding, PassFinding
from aotc.parity.golden import Expected
from aotc.parity.inner_values import InnerValues, ProgramValues
from aotc.parity.inputs import Feeds
from aotc.parity.metrics import compare
from aotc.parity.module_outputs import first_wrong_module
from aotc.parity.reference import Eager, ReferenceModel, expect
from aotc.parity.reproduction import save_reproduction
from aotc.parity.same_nodes import by_names_of
from aotc.parity.search import Run, first_difference
from aotc.parity.tolerance import Tolerance
from aotc.parity.verdict import CaseVerdict, Verdict
from aotc.pipeline import passes_of
from aotc.rewrite import Context, run_passes
from aotc.runtime.session import run_once
from aotc.runtime.unsealed import map_files
from aotc.sources import AnySource, Import, import_source

Array = np.ndarray[Any, Any]
Progress = Callable[[str, str], None]


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked: on which inputs, with which bounds of the outputs; ``saved`` gets the reproduction."""

    feeds: Feeds
    bounds: Mapping[str, Tolerance]
    saved: Path
    threads: int | None
    progress: Progress = lambda *_: None

    @classmethod
    def of(
        cls, case: CaseVerdict, feeds: Feeds, saved: Path, threads: int | None, progress: Progress
    ) -> Question:
        """Return the question that a failed case leaves.

        Raises:
            UsageError: Eager refuses the inputs, so there is no right value.
        """
        if case.outcome == "engine accepts":
            raise UsageError(
                "eager refuses these inputs, so there is no right value to search for", slug="bisect"
            )
        bounds = {
            figures.name: Tolerance(figures.atol, figures.rtol, figures.tolerance)  # type: ignore[arg-type]
            for figures in case.outputs
        }
        return cls(feeds, bounds, saved, threads, progress)


@dataclasses.dataclass(frozen=True)
class Graph:
    """A graph that is searched: its text, what its large weights lie in, and what runs parts of it."""

    name: str
    model: ir.Model
    weights: Mapping[str, memoryview]
    run: Run


def bisect(
    mode: Literal["values", "passes"],
    source: AnySource,
    verdict: Verdict,
    feeds: Feeds,
    options: Options,
    *,
    bundle: OpenBundle | None,
    saved: Path,
    progress: Progress = lambda *_: None,
) -> AnyFinding | None:
    """Find where the worst case of a failed verdict went wrong; None if that does not show again.

    Args:
        mode: Which value of the engine is the first wrong one, or which stage of the build made it so.
        source: Says what is right.
        verdict: A negative one.
        feeds: The inputs of its worst case.
        options: Of the build, where there is no bundle or the stages are asked for.
        bundle: What was judged; None for a build of the source that was not published.
        saved: Folder for the reproduction.
        progress: Told what is being looked at.

    Raises:
        UsageError: The worst case is one that eager refuses, or the engine is not fp32 on ort-cpu.
        AotcError: As the import of the source.
    """
    _refuse_casts(options, bundle)
    engine, case = verdict.worst()
    progress("bisect", "")
    question = Question.of(case, feeds, saved, options.threads, progress)
    if mode == "passes":
        return find_pass(source, options, question)
    if bundle is None:
        return find_value_of_source(source, options, question)
    return find_value(bundle, engine.engine, source, options, question)


def _refuse_casts(options: Options, bundle: OpenBundle | None) -> None:
    """Refuse what a search cannot judge: values in float16, and graphs that were lowered for a device."""
    target, precision = options.target, str(options.precision)
    if bundle is not None:
        target, precision = (
            bundle.description.target,
            str(bundle.description.options.get("precision", "fp32")),
        )
    if (target, precision) != ("ort-cpu", "fp32"):
        raise UsageError(
            f"a search compares with the bounds of fp32 on ort-cpu, and this is {precision} for {target}",
            slug="bisect",
            hint="build it for ort-cpu in fp32, which shows what is wrong before it is cast or lowered",
        )


def find_value(
    bundle: OpenBundle, file: str, source: AnySource, options: Options, question: Question
) -> Finding | None:
    """Return the first wrong value of the engine ``file`` of a bundle; None if none differs.

    Args:
        bundle: Built from this source, or one like it.
        file: One of its engines.
        source: Says what is right.
        options: Of the bundle's build.
        question: The inputs.

    Raises:
        AotcError: As the import of the source.
    """
    imported, oracle = _import(source, question)
    if (wrong := wrong_program(imported.reference, imported.inner, question)) is not None:
        return wrong
    run_passes(imported.model, passes_of(options), Context(oracle))
    entries = bundle.description.engines
    portable = ir.from_proto(onnx.load_model_from_string(bytes(bundle.buffer(entries[0].file))))
    inner = by_names_of(portable.graph, imported.model.graph, imported.inner)
    # The portable file first: the runtime has fused less in it, so its values are nearer to the modules.
    for entry in (entry for entry in entries if entry.file in (entries[0].file, file)):
        weights = {name: bundle.buffer(name) for name in {tensor.file for tensor in entry.tensors}}
        graph = session_graph(entry.file, bundle.buffer(entry.file), weights, question)
        if (found := search_graph(graph, inner, question)) is not None:
            return found
    return None


def _import(source: AnySource, question: Question) -> tuple[Import, Oracle]:
    if isinstance(source, OnnxSource):  # without example inputs it would draw some
        source = dataclasses.replace(source, inputs=question.feeds)
    question.progress("bisect", "import")
    oracle = Oracle(question.threads or 0)
    return import_source(source, oracle), oracle


def find_value_of_source(source: AnySource, options: Options, question: Question) -> Finding | None:
    """Return the first wrong value of the engines that a build of ``source`` gives; None if none differs."""
    imported, oracle = _import(source, question)
    with tempfile.TemporaryDirectory(prefix="aotc-") as folder:
        *_, portable, optimised = (
            graph for _, graph in _stages(imported, options, Path(folder), oracle, question)
        )
        return (
            wrong_program(imported.reference, imported.inner, question)
            or search_graph(portable, imported.inner, question)
            or search_graph(optimised, imported.inner, question)
        )


def find_pass(source: AnySource, options: Options, question: Question) -> PassFinding | None:
    """Build ``source`` again and return the first stage that makes it wrong; None if none does."""
    imported, oracle = _import(source, question)
    expected = _expected(imported.reference, question)
    with tempfile.TemporaryDirectory(prefix="aotc-") as folder:
        for stage, graph in _stages(imported, options, Path(folder), oracle, question):
            question.progress("bisect", stage)
            if (detail := _why_wrong(graph.run, expected)) is not None:
                first = wrong_program(imported.reference, imported.inner, question) or search_graph(
                    graph, imported.inner, question
                )
                return PassFinding(stage=stage, detail=detail, first=first)
    return None


def _stages(
    imported: Import, options: Options, folder: Path, oracle: Oracle, question: Question
) -> Iterator[tuple[str, Graph]]:
    """Yield what a build has after each stage that changes the graph; the last two are the engine files."""
    model = imported.model

    def so_far(names: Sequence[str]) -> Mapping[str, Array]:
        prefix = part(model, [], names)
        return oracle.run(prefix, needed(prefix, question.feeds))

    yield "import", Graph("the imported graph", model, {}, so_far)
    for current in passes_of(options):
        (record,) = run_passes(model, [current], Context(oracle))
        if record.changes:
            yield record.name, Graph(f"the graph after {record.name}", model, {}, so_far)
    portable = emit_portable(model, folder)
    for entry in (portable, specialise(folder, portable, lambda _: None)):
        content = (folder / entry.file).read_bytes()
        weights = map_files(folder, entry)
        yield f"onnxruntime on {entry.file}", session_graph(entry.file, content, weights, question)


def session_graph(
    name: str, content: bytes | memoryview, weights: Mapping[str, memoryview], question: Question
) -> Graph:
    """Return the graph of an engine file, run as the engine is: the runtime optimises every part of it."""
    model = ir.from_proto(onnx.load_model_from_string(bytes(content)))

    def run(names: Sequence[str]) -> Mapping[str, Array]:
        proto = ir.to_proto(part(model, [], names))
        return run_once(proto.SerializeToString(), weights, question.feeds, threads=question.threads)

    return Graph(name, model, weights, run)


def _expected(reference: ReferenceModel, question: Question) -> dict[str, Expected]:
    """Return the reference's outputs with their bounds.

    Raises:
        UsageError: It refuses the inputs.
    """
    expected = expect(reference, question.feeds, question.bounds)
    if isinstance(expected, str):
        raise UsageError(f"there is no right value to search for: eager {expected}", slug="bisect")
    return expected


def _why_wrong(run: Run, expected: Mapping[str, Expected]) -> str | None:
    """Return how the outputs differ from what is expected, or why there are none; None if they agree."""
    try:
        got = run(list(expected))
    except AotcError as error:
        return f"it does not run: {error.message}"
    for name, want in expected.items():
        figures = compare(name, got[name], want.value, want.tolerance, want.unstable)
        if not figures.passed:
            return f"the output '{name}' differs: {figures.reason}"
    return None


def wrong_program(reference: ReferenceModel, inner: InnerValues, question: Question) -> Finding | None:
    """Search the program that a graph was translated from; None if it computes what eager computes."""
    if isinstance(reference, Eager) and isinstance(inner, ProgramValues):
        expected = _expected(reference, question)
        known = {name: want for name, want in expected.items() if name in inner.names}
        if _why_wrong(lambda names: inner.run(question.feeds, names), known):
            return first_wrong_module(reference, inner, question.feeds)
    return None


def search_graph(graph: Graph, inner: InnerValues, question: Question) -> Finding | None:
    """Search one graph, of a program that is right."""
    found = first_difference(
        cuts(graph.model.graph, inner.names),
        graph.run,
        inner,
        question.feeds,
        question.bounds,
        lambda text: question.progress("bisect", f"{graph.name}, {text}"),
    )
    if found is None:
        return None
    save_reproduction(found, graph.model, graph.weights, inner, question.feeds, question.saved)
    finding = found.finding(graph.name, inner)
    return finding.model_copy(update={"saved": str(question.saved)})
