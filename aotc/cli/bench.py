"""``aotc bench``: times a bundle, side by side with eager and the plain export if the source is given."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli.output import StageProgress, console, path_text, print_json, say, table
from aotc.cli.rivals import PLAIN, rivals
from aotc.cli.source_options import trust_options
from aotc.config import Options, load_options
from aotc.errors import UsageError

if TYPE_CHECKING:
    from aotc.bench import Failure, Feeds, Run, Timing
    from aotc.parity.inputs import Case
    from aotc.runtime import Engine
    from aotc.signature import Signature

Sizes = dict[str, int]
_LOADS = 3
AOTC = "aotc"


def _parse_sizes(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[Sizes]:
    """Read ``batch=1,seq=128`` of each option."""
    found = []
    for value in values:
        pairs = [part.partition("=") for part in value.split(",")]
        if not all(name and size.isdecimal() for name, _, size in pairs):
            raise click.BadParameter(f"'{value}' is not like batch=1,seq=128")
        found.append({name.strip(): int(size) for name, _, size in pairs})
    return found


@click.command("bench", short_help="Time a bundle.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--vs", type=click.Path(path_type=Path), metavar="SOURCE", help="Time eager and the plain export too."
)
@click.option("--threads", type=click.IntRange(1), help="Threads of every runner (default: usable cores).")
@click.option(
    "--repeat", type=click.IntRange(1), default=30, show_default=True, help="Timed runs of each runner."
)
@click.option(
    "--sizes", multiple=True, callback=_parse_sizes, metavar="DIM=N,...", help="Sizes instead of opt."
)
@trust_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    directory: Path,
    vs: Path | None,
    threads: int | None,
    repeat: int,
    sizes: list[Sizes],
    as_json: bool,
    **trust: bool | None,
) -> None:
    """Time the bundle DIR at the opt sizes of its profiles, on drawn inputs.

    With --vs SOURCE the eager model and its plain export (torch.onnx.export in a default ONNX Runtime
    session) take turns with the engine in the same run: only such ratios mean something.
    """
    from aotc.bench import busy, load_average, machine, usable_cores
    from aotc.cli.bench_document import BenchDocument

    before = load_average()
    options = load_options(trust, Path.cwd())
    with StageProgress() as progress:
        document = _bench(directory, vs, threads or usable_cores(), repeat, sizes, options, progress)
    here, after = machine(), load_average()
    document["machine"] = dataclasses.asdict(here)
    document["load_average"] = {"before": before, "after": after}
    document["busy"] = busy(before, after, here.cores)
    if as_json:
        print_json(BenchDocument.model_validate(document).to_dict())
    else:
        _print(document, str(here))
    if document["busy"]:
        say(
            "warning: the machine was busy, which changes times and ratios; run again when it is quiet",
            err=True,
        )


def _bench(
    directory: Path,
    vs: Path | None,
    threads: int,
    repeat: int,
    wanted: list[Sizes],
    options: Options,
    progress: StageProgress,
) -> dict[str, Any]:
    """Measure everything and return the JSON document, without the machine."""
    from aotc.bench import measure

    progress("load", "")
    engine, observed, loading = _load(directory, threads)
    document: dict[str, Any] = {
        "schema_version": 1,
        "bundle": path_text(directory),
        "digest": engine.description.digest,
        "selection": engine.selection,
        "threads": threads,
        "repeat": repeat,
        "load": loading,
        "sizes": [],
    }
    with engine, contextlib.ExitStack() as stack:
        sizes = _all_sizes(engine.signature, observed[0], wanted)
        cases = [_draw(engine.signature, observed, each) for each in sizes]
        others: dict[str, Run] = {}
        if vs is not None:
            others = stack.enter_context(rivals(vs, engine.signature, threads, options, progress))
        for case in cases:
            progress("measure", "")
            runners = {AOTC: engine.run_flat, **others}
            feeds = _accepted(case, [run for name, run in runners.items() if name != PLAIN])
            outcomes = measure(runners, feeds, repeat=repeat)
            document["sizes"].append({"sizes": case.sizes, "runners": _as_json(outcomes)})
    return document


def _load(directory: Path, threads: int) -> tuple[Engine, list[Feeds], dict[str, float]]:
    """Load several times; return the last engine, inputs that the source gave, and medians in seconds."""
    taken: dict[str, list[float]] = {}
    for left in reversed(range(_LOADS)):
        engine, observed = _load_once(directory, threads, taken)
        if left:
            engine.close()
    return engine, observed, {name: statistics.median(seconds) for name, seconds in taken.items()}


def _load_once(directory: Path, threads: int, taken: dict[str, list[float]]) -> tuple[Engine, list[Feeds]]:
    from aotc import optional
    from aotc.bundle import open_bundle
    from aotc.parity.golden_set import observed_inputs
    from aotc.runtime import load_opened

    optional.require("onnxruntime")
    times = [time.perf_counter()]
    with open_bundle(directory) as opened:
        times.append(time.perf_counter())
        engine = load_opened(opened, threads=threads)
        times.append(time.perf_counter())
        observed: list[Feeds] = list(observed_inputs(opened))
    start = time.perf_counter()
    engine.run_flat(observed[0])
    first = time.perf_counter() - start
    parts = {"verify_s": times[1] - times[0], "create_s": times[2] - times[1], "first_run_s": first}
    for name, seconds in parts.items():
        taken.setdefault(name, []).append(seconds)
    return engine, observed


def _all_sizes(signature: Signature, example: Feeds, wanted: list[Sizes]) -> list[Sizes]:
    """Return the sizes to time: the wanted ones, else the opt sizes of each profile, else the example's."""
    usual: Sizes = signature.check(example)
    profiled = [usual | {name: p.opt for name, p in profile.items()} for profile in signature.profiles]
    for sizes in wanted:
        if unknown := sorted(sizes.keys() - usual.keys()):
            known = ", ".join(usual) or "none"
            raise UsageError(f"no input has the dim '{unknown[0]}'", slug="sizes", hint=f"dims: {known}")
    base = profiled[0] if profiled else usual
    found = [base | sizes for sizes in wanted] or profiled or [usual]
    return [sizes for index, sizes in enumerate(found) if sizes not in found[:index]]


def _draw(signature: Signature, observed: list[Feeds], sizes: Sizes) -> Case:
    """Draw inputs as the gate does, whose first case has the opt sizes of the first profile."""
    from aotc.parity.inputs import generate
    from aotc.signature import Profile

    pinned = {name: Profile(min=size, opt=size, max=size) for name, size in sizes.items()}
    profiles = (pinned, *(signature.profiles or ({},)))
    case = next(generate(signature.model_copy(update={"profiles": profiles}), [dict(f) for f in observed]))
    signature.check(case.feeds)
    return case


def _accepted(case: Case, runners: list[Run]) -> Feeds:
    """Return the drawn inputs, or the example's values at those sizes if a runner refuses the drawn ones."""
    try:
        for run in runners:
            run(case.feeds)
    except Exception:
        if case.fallback is None:
            raise
        for run in runners:
            run(case.fallback)
        return case.fallback
    return case.feeds


def _as_json(outcomes: dict[str, Timing | Failure]) -> dict[str, dict[str, Any]]:
    from aotc.bench import Failure, ratios

    over = ratios(outcomes, AOTC)
    found: dict[str, dict[str, Any]] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, Failure):
            found[name] = {"failure": outcome.reason}
        else:
            times = {"p50_s": outcome.p50, "p95_s": outcome.p95, "best_s": outcome.best}
            found[name] = {**times, "count": outcome.count, "ratio": over.get(name)}
    return found


def _print(document: dict[str, Any], here: str) -> None:
    load = {name: f"{seconds * 1e3:.1f} ms" for name, seconds in document["load"].items()}
    say(f"bundle {document['bundle']} (digest {document['digest'][:12]}), {document['selection']}")
    say(f"machine: {here}; load average {_average(document)}")
    say(
        f"load: verify {load['verify_s']}, create {load['create_s']}, first run {load['first_run_s']} "
        f"(medians of {_LOADS})"
    )
    say(f"{document['threads']} threads, {document['repeat']} runs of each, in turns\n")
    rows: list[list[object]] = []
    for entry in document["sizes"]:
        label = " ".join(f"{name}={size}" for name, size in entry["sizes"].items()) or "static"
        rows += [[label, name, *_cells(figures)] for name, figures in entry["runners"].items()]
    console().print(table(["sizes", "runner", "p50 ms", "p95 ms", "x aotc's time", ""], rows, numbers=2))


def _average(document: dict[str, Any]) -> str:
    average = document["load_average"]
    return ", ".join(f"{when} {'unknown' if x is None else f'{x:.2f}'}" for when, x in average.items())


def _cells(figures: dict[str, Any]) -> list[object]:
    if "failure" in figures:
        return ["-", "-", "-", figures["failure"]]
    ratio = figures["ratio"]
    cells = [f"{figures['p50_s'] * 1e3:.3f}", f"{figures['p95_s'] * 1e3:.3f}"]
    return [*cells, "-" if ratio is None else f"{ratio:.2f}", ""]
