"""What holds for every graph: the optimising passes keep the function, the interface and the rules."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from aotc_passes.optimise import PASSES, FoldConstants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import models

from aotc.ir.text import to_text
from aotc.ir.verify import verify
from aotc.oracle import Oracle
from aotc.rewrite import Context, run_passes
from aotc.testing import assert_close, sample_inputs

CONTEXT = Context(oracle=Oracle())
RTOL, ATOL = 1e-5, 2e-5
ROUNDS = 4
PROPERTY = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def _interface(model: ir.Model) -> list[tuple[str | None, str, str]]:
    return [(v.name, str(v.dtype), str(v.shape)) for v in (*model.graph.inputs, *model.graph.outputs)]


def _assert_same_function(before: ir.Model, after: ir.Model) -> None:
    for index in range(2):
        feeds = sample_inputs(before, index)
        expected, actual = CONTEXT.oracle.run(before, feeds), CONTEXT.oracle.run(after, feeds)
        assert list(actual) == list(expected)
        for name, array in expected.items():
            assert_close(actual[name], array, rtol=RTOL, atol=ATOL, name=name)


@PROPERTY
@given(model=models())
def test_the_pipeline_keeps_the_function_and_the_interface(model: ir.Model) -> None:
    before, interface = model.clone(), _interface(model)
    run_passes(model, [cls() for cls in PASSES], CONTEXT)
    verify(model, after="the pipeline")
    assert _interface(model) == interface
    _assert_same_function(before, model)


@PROPERTY
@given(model=models())
def test_the_pipeline_reaches_a_fixed_point(model: ir.Model) -> None:
    for _ in range(ROUNDS):
        text = to_text(model)
        records = run_passes(model, [cls() for cls in PASSES], CONTEXT)
        changed = any(record.changes for record in records)
        assert changed == (to_text(model) != text)
        if not changed:
            return
    raise AssertionError(f"still changing after {ROUNDS} rounds: {[r.changes for r in records if r.changes]}")


@pytest.mark.parametrize("cls", [*PASSES, "small"], ids=lambda c: c if isinstance(c, str) else c.name())
@PROPERTY
@given(data=st.data())
def test_each_pass_alone_keeps_the_function_and_is_idempotent(cls: type, data: st.DataObject) -> None:
    model = data.draw(models())
    current = FoldConstants(max_bytes=32) if cls == "small" else cls()
    before, text = model.clone(), to_text(model, max_elements=1 << 20)
    result = current.run(model, CONTEXT)
    verify(model, after=str(current))
    after = to_text(model, max_elements=1 << 20)
    assert result.modified == (after != text)
    _assert_same_function(before, model)
    assert current.run(model, CONTEXT).changes == ()
    assert to_text(model, max_elements=1 << 20) == after


@PROPERTY
@given(model=models())
def test_a_clone_of_a_rewritten_model_survives_the_file_form(model: ir.Model) -> None:
    run_passes(model, [cls() for cls in PASSES], CONTEXT)
    again = ir.from_proto(ir.to_proto(model))
    verify(again, after="reading")
    assert to_text(again) == to_text(model)
