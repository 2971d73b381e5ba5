"""``--validate``: what is compared after every pass, to name the guilty one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from aotc.errors import RefusedError, VerdictError
from aotc.ir.rounding import round_explicitly
from aotc.oracle import Oracle
from aotc.parity import golden
from aotc.parity.golden import Expected, Reference
from aotc.parity.inputs import Feeds
from aotc.parity.metrics import compare
from aotc.parity.regions import region_validator, samples
from aotc.parity.tolerance import Tolerance
from aotc.rewrite import Checks, Pass
from aotc.rewrite.manager import Budget, Check
from aotc.signature import Signature


def pass_checks(
    level: str,
    oracle: Oracle,
    references: Sequence[Reference],
    cases: Path,
    signature: Signature,
    bounds: Mapping[str, Tolerance],
) -> Checks:
    """Return what ``--validate`` asks for: ``off``, ``region``, or ``each`` with the whole model as well.

    Args:
        level: Of ``Options.validate_passes``.
        oracle: Runs regions and models.
        references: The cases of the gate.
        cases: Folder of their files.
        signature: Names of inputs and outputs.
        bounds: What a pass that casts or quantises may cost, by output name.
    """
    known = oracle, references, cases, signature
    return Checks(
        regions=region_validator(*known) if level != "off" else None,
        budget=budget_check(oracle, samples(references, cases, signature), bounds)
        if level != "off"
        else None,
        model=given_check(*known) if level == "each" else None,
    )


def budget_check(oracle: Oracle, feeds: Mapping[str, Feeds], bounds: Mapping[str, Tolerance]) -> Budget:
    """Return the check of a pass whose relation is ``within``: outputs before and after, on ``feeds``.

    What is cast is run with every float16 value rounded, whichever kernels there are on this machine.

    Args:
        oracle: Runs both graphs.
        feeds: Inputs of the model, by label.
        bounds: By output name, what a pass may cost; an output without one must keep its bits.
    """

    def check(before: ir.Model, after: ir.Model, current: Pass) -> None:
        rounded = after.clone()
        round_explicitly(rounded)
        for label, given in feeds.items():
            right = oracle.run(before, given)
            for name, got in oracle.run(rounded, given).items():
                bound = bounds.get(name, Tolerance(0.0, 0.0, "exact"))
                figures = compare(name, got, right[name], bound, np.zeros(got.shape, bool))
                if not figures.passed:
                    raise VerdictError(
                        f"{current} changes the output '{name}' too much on {label}: {figures.reason}",
                        slug="validate",
                        hint="build in --precision fp32, or set a tolerance that suits the model",
                    )

    return check


def given_check(oracle: Oracle, references: Sequence[Reference], cases: Path, signature: Signature) -> Check:
    """Return the check of ``--validate each``: the whole model on the source's valid inputs.

    Args:
        oracle: Runs the model.
        references: The cases of the gate.
        cases: Folder of their files.
        signature: Names of inputs and outputs.
    """
    inputs = tuple(spec.name for spec in signature.inputs)
    outputs = tuple(spec.name for spec in signature.outputs)
    return whole_model_check(
        oracle,
        [
            (
                r.label,
                golden.read_inputs(cases / r.inputs, inputs),
                golden.read_expected(cases / r.outputs, outputs),
            )
            for r in references
            if r.kind == "given" and r.outputs is not None
        ],
    )


def whole_model_check(oracle: Oracle, cases: Sequence[tuple[str, Feeds, Mapping[str, Expected]]]) -> Check:
    """Return a check that runs the model on ``cases`` and compares it with eager's outputs and bounds."""

    def check(model: ir.Model, after: Pass) -> None:
        for label, feeds, expected in cases:
            try:
                got = oracle.run(model, feeds)
            except RefusedError as error:
                raise VerdictError(
                    f"after {after} the model does not run on {label}: {error.message}", slug="validate"
                ) from error
            for name, want in expected.items():
                figures = compare(name, got[name], want.value, want.tolerance, want.unstable)
                if not figures.passed:
                    raise VerdictError(
                        f"after {after} the output '{name}' differs on {label}: {figures.reason}",
                        slug="validate",
                        hint=f"--disable {after.name()}, and report the model",
                    )

    return check
