"""``python tests/support/gate_report.py``: tries the gate and writes docs/gate.md."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import multiprocessing
import platform
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import tiny_models
from gate_models import ARCHITECTURES, FILES, MODELS, TINY
from gate_mutants import Trial, trials, worst
from gate_trial import OPTIONS, at_seed, judge, record
from gate_worker import Worker

from aotc import pipeline

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gate.md"
PACKAGES = ("torch", "transformers", "onnxscript", "onnxruntime", "numpy")
EACH = 2
BUILT = (tiny_models.mlp, tiny_models.cnn, tiny_models.decoder, tiny_models.audio)
BUILDS = 2
HEAD = """# The gate, tried

Written by `python tests/support/gate_report.py`, with {versions}, on {machine}.

A mutant is the graph that a build would emit with one thing changed. It is judged as a build judges: both
engine files, every case, the derived bounds. What passes is compared with the original in float64 (where it
only rounds, bit for bit in float32), on the gate's inputs and on others: *equivalent* is equal on all,
*survived* is not. *Refused* are graphs of which ONNX Runtime makes no engine; they count for nothing.

**{caught} of {counted} mutants that are not equivalent are caught. {right} right graphs gave {alarms} false
alarms**: {builds} whole builds with other weights and drawn inputs, {gates} gates with other drawn inputs.
The largest error of a right graph was {largest:.2f} of its bound.

"""


@dataclasses.dataclass(frozen=True)
class Alarm:
    """A right graph's gate at one seed."""

    model: str
    seed: int
    passed: bool
    ratio: float
    case: str


@dataclasses.dataclass(frozen=True)
class Result:
    """What was tried on one model."""

    model: str
    trials: tuple[Trial, ...]
    right: tuple[Alarm, ...]


def seeds_of(name: str) -> range:
    """Return the seeds of a model's right gates: fewer where each takes long."""
    return range(12 if name in TINY else 10 if name in ARCHITECTURES else 2 if name in FILES else 4)


def try_model(name: str, each: int = EACH, seeds: Iterable[int] | None = None) -> Result:
    """Try mutants of one model, and the model itself with other drawn inputs."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, Worker() as worker:
        recorded = record(MODELS[name](), Path(folder))
        tried = tuple(trials(name, recorded, each, worker))
        right = []
        for seed in seeds_of(name) if seeds is None else seeds:
            with tempfile.TemporaryDirectory() as other:
                again = at_seed(recorded, Path(other), seed)
                verdict = judge(again, again.model.clone(), worker)
            right.append(Alarm(name, seed, verdict.passed, *worst(verdict)))
    return Result(name, tried, tuple(right))


def build_right(seed: int) -> list[Alarm]:
    """Build the tiny models as ``aotc build`` does, with weights and drawn inputs of ``seed``."""
    warnings.simplefilter("ignore")
    found = []
    for make in BUILT:
        with tempfile.TemporaryDirectory() as folder:
            options = OPTIONS.model_copy(update={"seed": seed})
            built = pipeline.build(make(seed), options, Path(folder) / "bundle")
        found.append(Alarm(make.__name__, seed, built.verdict.passed, *worst(built.verdict)))
    return found


def page(results: Sequence[Result], builds: Sequence[Alarm]) -> str:
    """Return the text of the page."""
    tried = [trial for result in results for trial in result.trials]
    gates = [alarm for result in results for alarm in result.right]
    right = [*gates, *builds]
    outcomes = Counter(trial.outcome for trial in tried)
    head = HEAD.format(
        versions=", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES),
        machine=f"{platform.system()} {platform.machine()}",
        caught=outcomes["caught"],
        counted=outcomes["caught"] + outcomes["survived"],
        right=len(right),
        builds=len(builds),
        gates=len(gates),
        alarms=sum(not alarm.passed for alarm in right),
        largest=max(alarm.ratio for alarm in right),
    )
    largest = {result.model: max((a.ratio for a in result.right), default=0.0) for result in results}
    models = _table("model", tried, lambda trial: trial.model, largest)
    kinds = _table("what was changed", tried, lambda trial: trial.kind, {})
    return f"{head}{models}\n{kinds}\n{_survivors(tried)}"


def _table(title: str, tried: Sequence[Trial], key: Callable[[Trial], str], largest: dict[str, float]) -> str:
    rows: dict[str, Counter[str]] = {}
    for trial in tried:
        rows.setdefault(key(trial), Counter())[trial.outcome] += 1
    rows["all"] = sum(rows.values(), Counter())
    last = " worst of right graphs |" if largest else ""
    lines = [
        f"| {title} | mutants | caught | equivalent | survived | refused |{last}",
        "|---|---|---|---|---|---|" + "---|" * bool(largest),
    ]
    for name, count in rows.items():
        cells = [count[each] for each in ("caught", "equivalent", "survived", "refused")]
        ratio = f" {largest[name]:.2f} |" if name in largest else " |" * bool(largest)
        lines.append(f"| {name} | {sum(cells)} | {' | '.join(map(str, cells))} |{ratio}")
    return "\n".join(lines) + "\n"


def _survivors(tried: Sequence[Trial]) -> str:
    """Return the list of survivors: the gate's figure, and the change itself in float64."""
    lines = ["## Survivors", "", *(_note(trial) for trial in tried if trial.outcome == "survived")]
    return "\n".join(lines) + "\n"


def _note(trial: Trial) -> str:
    if trial.seen == 0:
        found = f"no input of the gate shows it; on others {trial.elsewhere:.2g} of the largest value"
    else:
        found = (
            f"{trial.ratio:.2f} of the bound ({trial.case}); it changes {trial.seen:.2g} of the largest value"
        )
    return f"- {trial.model}, {trial.kind}, `{trial.where}`: {found}"


def try_all(names: Sequence[str], each: int = EACH) -> tuple[list[Result], list[Alarm]]:
    """Try ``each`` mutants of a kind of the models, two models at a time, and build the tiny ones."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as pool:
        building = [pool.submit(build_right, seed) for seed in range(BUILDS)]
        pending = [pool.submit(try_model, name, each) for name in names]
        return [each.result() for each in pending], [alarm for each in building for alarm in each.result()]


def main(names: Sequence[str]) -> None:
    """Try the models ``names``, or all of them and write the page."""
    text = page(*try_all(names or list(MODELS)))
    sys.stdout.write(text)
    if not names:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
