"""What a failed gate leaves behind: the worst input as a file, and the command that runs it again."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from aotc.bundle import beside
from aotc.errors import VerdictError
from aotc.parity import golden
from aotc.parity.golden import Reference
from aotc.parity.verdict import AnyVerdict, PartsVerdict, Verdict
from aotc.signature import Signature


class ParityError(VerdictError):
    """The engine does not compute what eager computes. ``verdict`` has all figures."""

    slug = "parity"

    def __init__(self, verdict: AnyVerdict, *, where: str | None, hint: str | None) -> None:
        super().__init__(_summary(verdict), where=where, hint=hint)
        self.verdict = verdict


def _summary(verdict: AnyVerdict) -> str:
    if isinstance(verdict, PartsVerdict) and verdict.failed is not None:
        return f"part '{verdict.failed}': {_summary(verdict.parts[verdict.failed])}"
    accuracy = verdict.accuracy
    if isinstance(verdict, Verdict) and not verdict.worst()[1].passed:
        return _worst(verdict)
    if accuracy is not None and not accuracy.passed:
        return (
            f"accuracy() is {accuracy.engine:.6g} on the engine and {accuracy.eager:.6g} on eager: "
            f"{abs(accuracy.engine - accuracy.eager):.2g} apart, and {accuracy.limit:g} is allowed"
        )
    return f"no case could be compared: {verdict.reference} refused every input"


def _worst(verdict: Verdict) -> str:
    engine, case = verdict.worst()
    failed = len({case.label for engine in verdict.engines for case in engine.cases if not case.passed})
    total = len({case.label for engine in verdict.engines for case in engine.cases})
    worst = f"{case.outcome} on {case.label}: {case.detail} ({engine.engine})"
    return f"{failed} of {total} cases fail; worst: {worst}"


def parity_error(
    verdict: Verdict,
    signature: Signature,
    cases: Path,
    references: Sequence[Reference],
    saved: Path,
    source: str | None,
    graph: Path,
) -> ParityError:
    """Save the worst case's inputs to ``saved`` and return the error that says so.

    Args:
        verdict: A negative verdict.
        signature: Names of the inputs.
        cases: Folder of the case files.
        references: The cases.
        saved: The .npz to write, arrays by input name.
        source: Path of the source file, for the command; None if the source is not a file.
        graph: The portable model, to name the module of a node that the runtime's message names.
    """
    engine, case = verdict.worst()
    if case.passed:
        return ParityError(verdict, where=engine.engine, hint="aotc build --json shows every figure")
    save_worst(verdict, signature, cases, references, saved)
    command = f"aotc check {source} --inputs {saved} --bisect" if source else None
    import onnx_ir as ir  # not needed by those who only replay a bundle

    from aotc.ir import scopes

    place = scopes.place_in_text(ir.load(graph), case.detail or "")
    where = f"inputs saved to {saved}" + (f"; {place}" if place else "")
    return ParityError(verdict, where=where, hint=command)


def failed_inputs(bundle: Path) -> Path:
    """Return where the worst inputs of a failed check of ``bundle`` go."""
    return beside(bundle, "failed.npz")


def save_worst(
    verdict: Verdict, signature: Signature, cases: Path, references: Sequence[Reference], saved: Path
) -> None:
    """Save the inputs of the worst case to ``saved``, arrays by input name."""
    reference = next(r for r in references if r.label == verdict.worst()[1].label)
    feeds = golden.read_inputs(cases / reference.inputs, tuple(spec.name for spec in signature.inputs))
    partial = saved.with_name(saved.name + ".part")
    golden.write_arrays(partial, feeds)
    shutil.move(partial, saved)
