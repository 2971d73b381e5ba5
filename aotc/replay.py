"""``aotc check`` of one graph: an open bundle again, on its golden inputs or against eager."""

from __future__ import annotations

import gc
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.bundle import Checked, Description, OpenBundle, write_checked
from aotc.config import Bound
from aotc.environment import environment
from aotc.errors import CompatibilityError, RefusedError
from aotc.parity.cases import all_cases
from aotc.parity.failure import failed_inputs, save_worst
from aotc.parity.gate import judge
from aotc.parity.golden import Reference
from aotc.parity.inputs import Feeds
from aotc.parity.recorded import recorded
from aotc.parity.reference import write_references
from aotc.parity.stage import compare_accuracy, score
from aotc.parity.tolerance import Tolerance, configured
from aotc.parity.verdict import Accuracy, CaseVerdict, EngineVerdict, Verdict
from aotc.runtime import Engine, load_for_check

if TYPE_CHECKING:
    from aotc.sources import AnySource

Progress = Callable[[str, str], None]


def check_golden(
    bundle: OpenBundle, threads: int | None = None, progress: Progress = lambda *_: None
) -> Verdict:
    """Replay the golden inputs of a bundle of one graph; needs neither torch nor onnx.

    Records the result beside the bundle (``DIR.checked.json``).

    Raises:
        AotcError: As ``aotc.load``.
    """
    references = [
        Reference(label=c.label, kind="given", sizes=c.sizes, inputs=c.inputs, outputs=c.outputs)
        for c in bundle.description.golden
    ]
    with load_for_check(bundle, threads=threads) as engine:
        progress("check", "")
        cases = judge(
            engine.run_flat,
            references,
            lambda name: io.BytesIO(bundle.buffer(name)),
            engine.signature,
            lambda label: progress("check", label),
        )
        built = recorded(bundle)
        verdict = _verdict(engine, cases, None, built.reference if built is not None else "eager")
    _record(bundle, verdict)
    return verdict


def check_source(
    bundle: OpenBundle,
    source: AnySource,
    *,
    threads: int | None = None,
    seed: int = 0,
    only: Feeds | None = None,
    progress: Progress = lambda *_: None,
) -> Verdict:
    """Compare a bundle of one graph with eager again, on all cases of the gate or on one given input set.

    Where it fails on the gate's, the worst of them go to a file beside the bundle (``failed_inputs``).

    Raises:
        CompatibilityError: The source's forward is not the one that the bundle was built from.
        AotcError: As ``aotc.load`` and ``aotc.build``.
    """
    with tempfile.TemporaryDirectory(prefix="aotc-") as scratch:
        folder = Path(scratch)
        reference, references, metric = _eager_side(source, bundle, folder, seed, threads, only, progress)
        gc.collect()
        with load_for_check(bundle, threads=threads) as engine:
            progress("check", "")
            cases = judge(
                engine.run_flat,
                references,
                folder.joinpath,
                engine.signature,
                lambda label: progress("check", label),
            )
            accuracy = None
            if metric is not None and source.accuracy is not None:
                accuracy = compare_accuracy(source.accuracy, metric, engine.run)
            verdict = _verdict(engine, cases, accuracy, reference)
        if only is None and not verdict.worst()[1].passed:
            save_worst(verdict, engine.signature, folder, references, failed_inputs(bundle.path))
    if only is None:
        _record(bundle, verdict)
    return verdict


def _eager_side(
    source: AnySource,
    bundle: OpenBundle,
    folder: Path,
    seed: int,
    threads: int | None,
    only: Feeds | None,
    progress: Progress,
) -> tuple[str, list[Reference], float | None]:
    """Run eager and let go of it before the engine is loaded; return what it is called, and what it says."""
    from aotc.oracle import Oracle  # not needed by those who only replay a bundle
    from aotc.sources import reference_again

    progress("eager", "")
    signature = bundle.description.signature
    eager, given = reference_again(source, bundle, Oracle(threads or 0))
    cases = all_cases(signature, given, seed=seed, only=only)
    try:
        references = write_references(
            eager, cases, folder, _configured(bundle.description), lambda label: progress("eager", label)
        )
    except RefusedError as error:
        if error.name != "result-structure":
            raise
        raise CompatibilityError(
            "the source's forward returns another structure than the bundle",
            hint="check against the source that the bundle was built from, or build it again",
        ) from error
    metric = score(source.accuracy, eager.call) if source.accuracy is not None and only is None else None
    return eager.name, references, metric


def _configured(description: Description) -> dict[str, Tolerance]:
    """Return the bounds that the bundle was built with instead of derived ones."""
    bounds = description.options.get("tolerance") or {}
    assert isinstance(bounds, dict)
    given = {name: Bound.model_validate(bound) for name, bound in bounds.items()}
    return configured(given, description.signature, str(description.options.get("precision", "fp32")))


def _verdict(
    engine: Engine, cases: tuple[CaseVerdict, ...], accuracy: Accuracy | None, reference: str
) -> Verdict:
    return Verdict(
        level=engine.level,
        reference=reference,
        engines=(EngineVerdict(engine=engine.file, cases=cases),),
        accuracy=accuracy,
        environment={**environment(), "selection": engine.selection},
    )


def _record(bundle: OpenBundle, verdict: Verdict) -> None:
    write_checked(
        bundle.path,
        Checked(
            digest=bundle.description.digest,
            verdict="pass" if verdict.passed else "fail",
            level=verdict.level,
            details={"environment": dict(verdict.environment)},
        ),
    )
