"""``--validate each``: the whole model against eager after every pass, to name the guilty one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from aotc.errors import RefusedError, VerdictError
from aotc.oracle import Oracle
from aotc.parity.golden import Expected
from aotc.parity.cases import Given
from aotc.parity.inputs import Feeds
from aotc.parity.metrics import compare
from aotc.parity.reference import Eager, expect
from aotc.parity.tolerance import Tolerance
from aotc.rewrite import Pass
from aotc.rewrite.manager import Check


def example_check(
    eager: Eager, given: Sequence[Given], configured: Mapping[str, Tolerance], oracle: Oracle
) -> Check:
    """Return the check of ``--validate each``: the whole model on the source's valid inputs."""
    expected = []
    for label, valid, feeds in given:
        outputs = expect(eager, feeds, configured) if valid else ""
        if not isinstance(outputs, str):
            expected.append((label, feeds, outputs))
    return whole_model_check(oracle, expected)


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
