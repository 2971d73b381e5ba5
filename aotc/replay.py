"""``aotc check``: a published bundle again, on its golden inputs or against eager."""

from __future__ import annotations

import gc
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from aotc.bundle import Checked, Description, OpenBundle, open_bundle, verify_bundle, write_checked
from aotc.environment import environment
from aotc.errors import CompatibilityError, RefusedError
from aotc.export.source import Source, load_source
from aotc.parity.cases import all_cases, one_case
from aotc.parity.gate import judge
from aotc.parity.golden import Reference
from aotc.parity.inputs import Feeds
from aotc.parity.reference import Eager, write_references
from aotc.parity.stage import ACCURACY_LIMIT, score
from aotc.parity.tolerance import Tolerance
from aotc.parity.verdict import Accuracy, EngineVerdict, Verdict
from aotc.runtime import Engine, load_opened

Progress = Callable[[str, str], None]


def check_golden(
    directory: Path, threads: int | None = None, progress: Progress = lambda *_: None
) -> tuple[Verdict, Description]:
    """Replay the bundle's golden inputs; needs neither torch nor onnx.

    Records the result beside the bundle (``DIR.checked.json``).

    Raises:
        AotcError: As ``aotc.load``.
    """
    progress("load", "")
    with open_bundle(directory) as bundle:
        description = bundle.description
        references = [
            Reference(label=c.label, kind="given", sizes=c.sizes, inputs=c.inputs, outputs=c.outputs)
            for c in description.golden
        ]
        with load_opened(bundle, threads=threads, allow_unexecuted=True) as engine:
            progress("check", "")
            cases = judge(
                engine.run_flat,
                references,
                lambda name: io.BytesIO(bundle.buffer(name)),
                description.signature,
                lambda label: progress("check", label),
            )
            verdict = _verdict(engine, EngineVerdict(engine=engine.file, cases=cases), None)
    _record(directory, description, verdict)
    return verdict, description


def load_source_of(directory: Path, path: Path, *, trust_remote_code: bool = False) -> Source:
    """Return the source at ``path``, with example inputs of the sizes that the bundle ``directory`` allows.

    A Python file says its sizes itself; those of a folder may have been given when the bundle was built.

    Raises:
        AotcError: As ``aotc.export.source.load_source``, and as ``aotc.load``.
    """
    sizes = {}
    if path.is_dir():
        profiles = verify_bundle(directory).signature.profiles
        sizes = {name: (p.min, p.opt, p.max) for name, p in profiles[0].items()} if profiles else {}
    return load_source(path, sizes=sizes, trust_remote_code=trust_remote_code)


def check_source(
    directory: Path,
    source: Source,
    *,
    threads: int | None = None,
    seed: int = 0,
    only: Feeds | None = None,
    progress: Progress = lambda *_: None,
) -> tuple[Verdict, Description]:
    """Compare the bundle with eager again, on all cases of the gate or on one given input set.

    Raises:
        CompatibilityError: The source's forward is not the one that the bundle was built from.
        AotcError: As ``aotc.load`` and ``aotc.build``.
    """
    progress("load", "")
    with open_bundle(directory) as bundle, tempfile.TemporaryDirectory(prefix="aotc-") as scratch:
        description = bundle.description
        folder = Path(scratch)
        references, metric = _eager_side(source, bundle, folder, seed, only, progress)
        gc.collect()
        with load_opened(bundle, threads=threads, allow_unexecuted=True) as engine:
            progress("check", "")
            cases = judge(
                engine.run_flat,
                references,
                folder.joinpath,
                description.signature,
                lambda label: progress("check", label),
            )
            accuracy = None
            if metric is not None and source.accuracy is not None:
                found = score(source.accuracy, engine.run, eager=metric)
                accuracy = Accuracy(eager=metric, engine=found, limit=ACCURACY_LIMIT)
            verdict = _verdict(engine, EngineVerdict(engine=engine.file, cases=cases), accuracy)
    if only is None:
        _record(directory, description, verdict)
    return verdict, description


def _eager_side(
    source: Source, bundle: OpenBundle, folder: Path, seed: int, only: Feeds | None, progress: Progress
) -> tuple[list[Reference], float | None]:
    """Run eager and let go of it before the engine is loaded."""
    from aotc.export.call import bind, rebuild
    from aotc.export.guards import refuse_module, refuse_training
    from aotc.export.importer import given_inputs

    progress("eager", "")
    signature = bundle.description.signature
    module = source.model()
    refuse_module(module)
    refuse_training(module)
    call = bind(module, source.inputs)
    if call.arguments != signature.arguments:
        raise CompatibilityError(
            "the source's forward takes other arguments than the bundle",
            where=", ".join(argument.name for argument in call.arguments),
            hint="build the bundle again from this source",
        )
    eager = Eager(module, lambda tensors: rebuild(call, tensors), signature)
    if only is not None:
        cases = one_case(signature, only)
    else:
        cases = all_cases(signature, given_inputs(source, module, signature), seed=seed)
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
    return references, metric


def _configured(description: Description) -> dict[str, Tolerance]:
    """Return the bounds that the bundle was built with instead of derived ones."""
    bounds = description.options.get("tolerance") or {}
    assert isinstance(bounds, dict)
    return {name: Tolerance(origin="configured", **bound) for name, bound in bounds.items()}  # type: ignore[arg-type]


def _verdict(engine: Engine, judged: EngineVerdict, accuracy: Accuracy | None) -> Verdict:
    return Verdict(
        engines=(judged,), accuracy=accuracy, environment={**environment(), "selection": engine.selection}
    )


def _record(directory: Path, description: Description, verdict: Verdict) -> None:
    write_checked(
        directory,
        Checked(
            digest=description.digest,
            verdict="pass" if verdict.passed else "fail",
            level="executed",
            details={"environment": dict(verdict.environment)},
        ),
    )
