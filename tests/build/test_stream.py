"""Builds with state: the gate compares streams, and a session computes what eager's loop does."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import tiny_models
import torch
from torch import nn
from torch.export import Dim

import aotc
from aotc import pipeline
from aotc.config import Options
from aotc.errors import UsageError
from aotc.export.source import Source, load_source
from aotc.parity import validate
from aotc.parity.failure import ParityError
from aotc.parts import check_source
from aotc.rewrite import Context, Pass, PassResult

STATE = {"memory.0": "output.1", "memory.1": "output.2"}


class Counter(nn.Module):
    """A gated cell and a counter that turns the input around at every third call."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor]) -> Any:
        h, count = memory
        turned = torch.where(count % 3 == 2, -x, x)
        h = self.cell(turned, h)
        return h.sum(1), h, count + 1


def stream(batch: int = 2, steps: int = 7) -> torch.Tensor:
    return torch.randn(steps, batch, 3, generator=torch.Generator().manual_seed(0))


def start(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(batch, 4), torch.tensor(0)


def counter(**fields: Any) -> Source:
    wanted = tiny_models.source(
        tiny_models.seeded(Counter),
        (stream()[0], start()),
        ({0: Dim("batch")}, ({0: Dim("batch")}, {})),
        profiles=[{"batch": (1, 2, 4)}],
        state=STATE,
    )
    return dataclasses.replace(wanted, **fields)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted, out = counter(), tmp_path_factory.mktemp("counter") / "bundle"
    aotc.build(
        wanted.model(),
        wanted.inputs,
        dynamic_shapes=wanted.dynamic_shapes,
        profiles=wanted.profiles,
        state=wanted.state,
        out=out,
        threads=1,
    )
    return out


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_session_computes_what_eagers_loop_does(bundle: Path, batch: int) -> None:
    module, memory = counter().model(), start(batch)
    with aotc.load(bundle, threads=1) as engine:
        session = engine.session()
        forgetful = []
        for x in stream(batch):
            with torch.no_grad():
                want, *memory = module(x, memory)
            got, h, count = session.run(x)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(h, memory[0], rtol=1e-5, atol=1e-6)
            assert count == memory[1]
            forgetful.append(float(np.abs(engine.run(x, start(batch))[0] - want.numpy()).max()))
    assert max(forgetful[1:]) > 0.1  # the state matters


def test_a_check_against_eager_compares_the_next_steps_too(bundle: Path) -> None:
    verdict, digest = check_source(bundle, counter())
    description = json.loads((bundle / "bundle.json").read_bytes())
    assert (description["digest"], description["signature"]["state"]) == (digest, STATE)
    assert verdict.passed
    labels = [case.label for case in verdict.engines[0].cases]
    assert {"example", "example, step 2", "example, step 3"} <= set(labels)


class Forgets(Pass):
    """A wrong pass that is right at every call whose counter is zero."""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        zero = ir.tensor(np.array(0), name="zero")
        value = ir.Value(name="zero", const_value=zero, type=ir.TensorType(zero.dtype), shape=ir.Shape([]))
        model.graph.register_initializer(value)
        count = next(each for each in model.graph.inputs if each.name == "memory.1")
        for node, index in count.uses():
            node.replace_input_with(index, value)
        return PassResult(("forgot",), ())

    @classmethod
    def name(cls) -> str:
        return "forgets"


def test_a_graph_that_forgets_is_wrong_from_the_second_step_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate, "region_validator", lambda *_: None)  # which would put it back
    monkeypatch.setattr(pipeline, "OPTIMISE", (Forgets(),))
    with pytest.raises(ParityError) as caught:
        pipeline.build(counter(), Options(threads=1), tmp_path / "stream")
    failed = {
        case.label for engine in caught.value.verdict.engines for case in engine.cases if not case.passed
    }
    assert {"example, step 2", "example, step 3"} <= failed
    assert "example" not in failed


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (["h"], r"state must be a dict \{input name: output name\}, not \['h'\]"),
        ({"memory.0": ["output.1"]}, "state must be a dict"),
        (
            {"memory": "output.1"},
            r"state names the input 'memory', which does not exist.*\n.*inputs: x, memory.0",
        ),
        ({"memory.0": "h"}, r"state names the output 'h', which does not exist"),
        (
            {"memory.0": "output.2"},
            r"'memory.0' is float32 \[batch, 4\], the output 'output.2' is int64 \[\]",
        ),
        (
            {"memory.0": "output.0"},
            r"'memory.0' is float32 \[batch, 4\], the output 'output.0' is float32 \[batch\]",
        ),
        ({"memory.0": "output.1"}, "the argument 'memory' holds state beside other tensors"),
    ],
)
def test_state_that_does_not_fit_is_refused(tmp_path: Path, state: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pipeline.build(counter(state=state), Options(threads=1), tmp_path / "b")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (1, "eager refuses step 2 of a stream that starts with the example"),
        (2, "eager refuses .*example, step 3"),
    ],
)
def test_a_stream_that_eager_refuses(tmp_path: Path, rows: int, message: str) -> None:
    module = tiny_models.Call(lambda self, i: (self.table(i), i + 1), table=nn.Embedding(rows, 3))
    wanted = tiny_models.source(module, (torch.tensor([0]),), state={"args.0": "output.1"})
    with pytest.raises(UsageError, match=message):
        pipeline.build(wanted, Options(threads=1), tmp_path / "b")


def test_a_source_file_declares_state(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def model(): ...\ndef inputs(): return ()\nstate = {'h': 'out'}\n")
    assert load_source(path).state == {"h": "out"}
