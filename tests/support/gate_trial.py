"""The gate of a build, recorded once, on graphs that are not the one that was built."""

from __future__ import annotations

import dataclasses
import gc
import tempfile
from pathlib import Path
from typing import Any

import onnx_ir as ir
from gate_worker import Worker

from aotc.backends.ort_cpu.emit import emit_portable
from aotc.bundle import Contents, EngineEntry, Staging
from aotc.config import Options
from aotc.errors import RefusedError
from aotc.oracle import Oracle
from aotc.parity.cases import Given, all_cases
from aotc.parity.conditions import insisted, refuse_broken
from aotc.parity.golden import Reference, read_inputs
from aotc.parity.reference import ReferenceModel, write_references
from aotc.parity.stage import judge_engines
from aotc.parity.verdict import EngineVerdict, Verdict
from aotc.pipeline import passes_of
from aotc.rewrite import Context, run_passes
from aotc.seal import draft
from aotc.signature import Signature
from aotc.sources import AnySource, import_source

ORACLE = Oracle(1)
OPTIONS = Options(threads=1)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A model as the stages before ``emit`` leave it, with the reference's side of the gate on disk."""

    model: ir.Model
    reference: ReferenceModel
    given: tuple[Given, ...]
    signature: Signature
    references: list[Reference]
    folder: Path

    @property
    def example(self) -> dict[str, Any]:
        """The inputs that the source gave."""
        return self.given[0][2]

    def inputs(self, reference: Reference) -> dict[str, Any]:
        """Return the inputs of a case."""
        return read_inputs(self.folder / reference.inputs, tuple(s.name for s in self.signature.inputs))


def record(source: AnySource, folder: Path, seed: int = 0) -> Recorded:
    """Do what a build does up to ``emit``."""
    imported = import_source(source, ORACLE)
    run_passes(imported.model, passes_of(OPTIONS), Context(ORACLE))
    gc.collect()
    empty = Recorded(
        imported.model, imported.reference, imported.given, imported.reference.signature, [], folder
    )
    return at_seed(empty, folder, seed)


def at_seed(recorded: Recorded, folder: Path, seed: int) -> Recorded:
    """Return the same model with the reference's side of the gate for other drawn inputs."""
    signature = recorded.reference.signature
    cases = all_cases(signature, recorded.given, seed=seed)
    references = write_references(recorded.reference, cases, folder, {})
    signature = signature.with_conditions(insisted(signature, references))
    return dataclasses.replace(recorded, signature=signature, references=references, folder=folder)


def judge(recorded: Recorded, model: ir.Model, worker: Worker) -> Verdict:
    """Do what a build does from ``emit`` to ``check``; ``model`` is used up.

    Where native code ends the worker, the check runs once more as a build runs it.

    Raises:
        RefusedError: ONNX Runtime does not load the graph, or crashes on it.
    """
    with tempfile.TemporaryDirectory() as scratch, Staging(Path(scratch) / "bundle") as staging:
        portable = emit_portable(model, staging.path)
        payload = {"directory": str(staging.path), "portable": portable.model_dump(mode="json")}
        engines = (portable, EngineEntry.model_validate(_made(worker.emit(payload))))
        contents = draft(staging, "trial", OPTIONS, recorded.signature, engines, ())
        judged = _judged(recorded, staging.path, contents, worker)
    judged, _ = refuse_broken(recorded.signature, recorded.references, judged)
    return Verdict(engines=judged, environment={})


def _judged(
    recorded: Recorded, directory: Path, contents: Contents, worker: Worker
) -> tuple[EngineVerdict, ...]:
    references = [reference.model_dump(mode="json") for reference in recorded.references]
    payload = {
        "directory": str(directory),
        "contents": contents.model_dump(mode="json"),
        "cases": str(recorded.folder),
        "references": references,
        "threads": OPTIONS.threads,
    }
    found = worker.check(payload)
    if found is None:
        return judge_engines(
            directory, contents, recorded.folder, recorded.references, OPTIONS.threads, lambda _: None
        )
    return tuple(EngineVerdict.model_validate(item) for item in _made(found))


def _made(result: Any) -> Any:
    if result is None or isinstance(result, str):
        raise RefusedError(result or "native code crashed", slug="trial")
    return result
