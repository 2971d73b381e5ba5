"""The gate: an engine against eager's recorded outputs, case by case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from aotc.errors import AotcError
from aotc.parity import golden
from aotc.parity.golden import Reference
from aotc.parity.metrics import OutputFigures, compare
from aotc.parity.verdict import CaseVerdict, EngineVerdict, Outcome
from aotc.signature import Signature

Array = np.ndarray[Any, Any]
Files = Callable[[str], Path | BinaryIO]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Runs an engine on flat inputs; refuses inputs with an ``AotcError``."""


def judge(
    run: Run,
    references: Sequence[Reference],
    files: Files,
    signature: Signature,
    on_case: Callable[[str], None] = lambda _: None,
) -> tuple[CaseVerdict, ...]:
    """Compare an engine with eager on every recorded case.

    Args:
        run: The engine.
        references: The cases.
        files: Opens their files by name.
        signature: Names and order of inputs and outputs.
        on_case: Told the label of each case before it runs.
    """
    verdicts = []
    for reference in references:
        on_case(reference.label)
        verdicts.append(_judge_case(run, reference, files, signature))
    return tuple(verdicts)


def _judge_case(run: Run, reference: Reference, files: Files, signature: Signature) -> CaseVerdict:
    input_names = tuple(spec.name for spec in signature.inputs)
    output_names = tuple(spec.name for spec in signature.outputs)
    feeds = golden.read_inputs(files(reference.inputs), input_names)
    try:
        got = run(feeds)
    except AotcError as error:
        outcome: Outcome = "engine raises" if reference.outputs else "both raise"
        return _verdict(reference, outcome, error.message)
    if reference.outputs is None:
        outcome = "engine accepts" if reference.strict else "not compared"
        return _verdict(reference, outcome, reference.refusal)
    expected = golden.read_expected(files(reference.outputs), output_names)
    figures = tuple(
        compare(name, np.asarray(got[name]), e.value, e.tolerance, e.unstable) for name, e in expected.items()
    )
    failed = [f"{f.name}: {f.reason}" for f in figures if not f.passed]
    return _verdict(reference, "differs" if failed else "equal", "; ".join(failed) or None, figures)


def _verdict(
    reference: Reference, outcome: Outcome, detail: str | None, outputs: tuple[OutputFigures, ...] = ()
) -> CaseVerdict:
    if reference.kind == "zero" and outcome in ("differs", "engine raises", "engine accepts"):
        # The signature will refuse this size, so the engine never answers there.
        outcome = "refused size"
    return CaseVerdict(
        label=reference.label, sizes=reference.sizes, outcome=outcome, detail=detail, outputs=outputs
    )


def refused_sizes(engines: Sequence[EngineVerdict]) -> set[str]:
    """Return the dims at whose size 0 some engine file is not equal to eager."""
    cases = [case for engine in engines for case in engine.cases if case.outcome == "refused size"]
    return {name for case in cases for name, size in case.sizes.items() if size == 0}
