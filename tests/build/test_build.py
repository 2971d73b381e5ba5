"""Whole builds of tiny models: what is published, and what a failing gate leaves behind."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import tiny_models
import torch
from tiny_models import source
from torch import nn
from torch.export import Dim

import aotc
from aotc import pipeline
from aotc.config import Options
from aotc.errors import InputError, RefusedError, UsageError, VerdictError
from aotc.export.source import Source
from aotc.parity import validate
from aotc.parity.failure import ParityError
from aotc.parts import check_golden
from aotc.rewrite import Context, Pass, PassResult
from aotc.seal import BuildResult

OPTIONS = Options(threads=1)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, BuildResult]:
    wanted = dataclasses.replace(
        tiny_models.mlp(), bad_inputs=[(torch.ones(3, 9),)], accuracy=lambda run: float(np.mean(run(X8) > 0))
    )
    return wanted, pipeline.build(wanted, OPTIONS, tmp_path_factory.mktemp("mlp") / "bundle")


X8 = torch.linspace(-1, 1, 24).reshape(3, 8)


def outcomes(result: BuildResult, kind: str) -> set[str]:
    cases = [case for engine in result.verdict.engines for case in engine.cases]
    return {case.outcome for case in cases if case.label.startswith(kind)}


def test_a_build_publishes_what_computes_the_same(mlp: tuple[Source, BuildResult]) -> None:
    wanted, result = mlp
    assert result.verdict.passed
    assert outcomes(result, "bad_inputs") == {"both raise"}
    assert {size["batch"] for size in result.description.verified_sizes} == {1, 3, 8}
    assert result.verdict.accuracy is not None
    assert result.verdict.accuracy.eager == result.verdict.accuracy.engine
    with aotc.load(result.directory) as engine:
        with torch.no_grad():
            want = wanted.model()(X8).numpy()
        np.testing.assert_allclose(engine.run(X8), want, rtol=1e-5, atol=1e-6)
        with pytest.raises(InputError, match="'batch' must be 1 to 8, not 9"):
            engine.run(torch.ones(9, 8))


def test_figures_are_json_and_golden_replays(mlp: tuple[Source, BuildResult]) -> None:
    _, result = mlp
    text = (result.directory / "parity.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert "Infinity" not in text
    verdict, _ = check_golden(result.directory)
    assert verdict.passed


def test_the_same_build_has_the_same_digest(mlp: tuple[Source, BuildResult], tmp_path: Path) -> None:
    wanted, result = mlp
    again = pipeline.build(wanted, OPTIONS, tmp_path / "b")
    assert again.description.digest == result.description.digest


def test_the_emitted_model_has_scopes_and_no_paths(mlp: tuple[Source, BuildResult]) -> None:
    _, result = mlp
    raw = (result.directory / "model.onnx").read_bytes()
    assert b"tiny_models.py" in raw
    assert b'File "/' not in raw
    assert str(Path(__file__).parents[2]).encode() not in raw
    model = ir.load(result.directory / "model.onnx")
    assert {"up.weight", "down.weight", "norm.weight"} <= set(model.graph.initializers)


class Doubles(Pass):
    """A wrong pass: it scales the last bias."""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        value = model.graph.initializers["down.bias"]
        assert value.const_value is not None
        array = value.const_value.numpy() * 2
        value.const_value = ir.tensor(array, name=value.name)
        return PassResult(("doubled",), ())

    @classmethod
    def name(cls) -> str:
        return "doubles"


MODEL_FILE = """
import torch
from tiny_models import Mlp
from torch.export import Dim

dynamic_shapes = ({0: Dim("batch")},)
profiles = [{"batch": (1, 3, 8)}]

def model():
    torch.manual_seed(0)
    return Mlp().eval()

def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 8),)
"""


def test_a_wrong_pass_publishes_nothing_and_its_inputs_fail_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aotc.cli.main import run
    from aotc.export.source import load_source

    path, out = tmp_path / "net.py", tmp_path / "bundle"
    path.write_text(MODEL_FILE)
    monkeypatch.setattr(validate, "region_validator", lambda *_: None)  # which would put it back
    monkeypatch.setattr(pipeline, "OPTIMISE", (*pipeline.OPTIMISE, Doubles()))
    with pytest.raises(ParityError) as caught:
        pipeline.build(load_source(path), OPTIONS, out)
    error, saved = caught.value, tmp_path / "bundle.failed.npz"
    assert (error.exit_code, error.name) == (1, "parity")
    assert "cases fail; worst: differs on" in error.message
    assert error.where == f"inputs saved to {saved}; report: {saved.with_suffix('.html')}"
    assert error.hint == f"aotc check {path} --inputs {saved} --bisect"
    names = ["bundle.failed.html", "bundle.failed.npz", "net.py"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    with np.load(saved, allow_pickle=False) as archive:
        assert set(archive.files) == {"x"}
    assert run(["check", str(path), "--inputs", str(saved)]) == 1
    monkeypatch.undo()
    assert run(["check", str(path), "--inputs", str(saved)]) == 0


def test_validate_each_names_the_guilty_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "region_validator", lambda *_: None)  # which would put it back
    monkeypatch.setattr(pipeline, "OPTIMISE", (pipeline.OPTIMISE[0], Doubles(), *pipeline.OPTIMISE[1:]))
    with pytest.raises(VerdictError, match="after doubles the output 'output' differs on example") as caught:
        pipeline.build(tiny_models.mlp(), Options(threads=1, validate="each"), tmp_path / "b")
    assert caught.value.name == "validate"
    assert "--disable doubles" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_validate_each_passes_right_passes(tmp_path: Path) -> None:
    assert pipeline.build(
        tiny_models.cnn(), Options(threads=1, validate="each"), tmp_path / "b"
    ).verdict.passed


@pytest.mark.parametrize(("difference", "passes"), [(0.9e-4, True), (1.2e-4, False), (float("nan"), False)])
def test_accuracy_may_differ_by_a_little(tmp_path: Path, difference: float, passes: bool) -> None:
    values = itertools.chain([0.5], itertools.repeat(0.5 + difference))
    wanted = dataclasses.replace(tiny_models.mlp(), accuracy=lambda run: next(values))
    if passes:
        assert pipeline.build(wanted, OPTIONS, tmp_path / "b").verdict.passed
        return
    with pytest.raises(VerdictError, match=r"accuracy\(\) is .* on the engine and 0.5 on eager"):
        pipeline.build(wanted, OPTIONS, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_an_accuracy_that_is_random_is_not_blamed_on_the_engine(tmp_path: Path) -> None:
    values = itertools.count()
    wanted = dataclasses.replace(tiny_models.mlp(), accuracy=lambda run: next(values))
    with pytest.raises(UsageError, match="another number each time"):
        pipeline.build(wanted, OPTIONS, tmp_path / "b")


@pytest.mark.parametrize(
    ("value", "text"), [(None, "returned None, not a number"), (float("inf"), "is inf on")]
)
def test_accuracy_must_be_a_finite_number(tmp_path: Path, value: object, text: str) -> None:
    wanted = dataclasses.replace(tiny_models.mlp(), accuracy=lambda run: value)
    with pytest.raises(UsageError, match=re.escape(f"accuracy() {text}")):
        pipeline.build(wanted, OPTIONS, tmp_path / "b")


class Checks(nn.Module):
    """Raises for a size in Python, where the graph has no such check."""

    def __init__(self, refused: int) -> None:
        super().__init__()
        self.refused = refused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling() and x.shape[0] == self.refused:
            raise ValueError("not this size")
        return x * 2


def test_a_profile_that_allows_what_eager_refuses_is_a_usage_error(tmp_path: Path) -> None:
    module = Checks(8)
    wanted = source(module, (torch.ones(3, 2),), ({0: "n"},), profiles=[{"n": (1, 3, 8)}])
    with pytest.raises(
        UsageError, match=r"a profile allows \(sizes n=8\): ValueError: not this size"
    ) as caught:
        pipeline.build(wanted, OPTIONS, tmp_path / "b")
    assert caught.value.name == "eager-refuses"


def test_a_size_that_eager_refuses_is_refused_by_the_engine_or_by_the_gate(tmp_path: Path) -> None:
    wanted = source(Checks(1), (torch.ones(3, 2),), ({0: "n"},))
    try:
        result = pipeline.build(wanted, OPTIONS, tmp_path / "b")
    except ParityError as error:
        assert "engine accepts on sizes n=1: eager raises ValueError" in str(error)  # noqa: PT017 - or below
        return
    assert outcomes(result, "sizes n=1") == {"both raise"}
    with aotc.load(result.directory) as engine, pytest.raises(InputError):
        engine.run(torch.ones(1, 2))


def test_an_empty_axis_that_does_not_agree_is_refused_from_then_on(tmp_path: Path) -> None:
    result = pipeline.build(source(Checks(0), (torch.ones(3, 2),), ({0: "n"},)), OPTIONS, tmp_path / "b")
    assert outcomes(result, "sizes n=0") == {"refused size"}
    with (
        aotc.load(result.directory) as engine,
        pytest.raises(InputError, match="'n' must be 1 to any size, not 0"),
    ):
        engine.run(torch.ones(0, 2))


def test_bad_inputs_that_the_engine_accepts_fail(tmp_path: Path) -> None:
    class Positive(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling() and bool((x < 0).any()):
                raise ValueError("negative")
            return x.sqrt()

    wanted = source(Positive(), (torch.ones(3),), bad_inputs=[(-torch.ones(3),)])
    with pytest.raises(
        ParityError, match=r"engine accepts on bad_inputs\[0\]: eager raises ValueError: negative"
    ):
        pipeline.build(wanted, OPTIONS, tmp_path / "b")
    result = pipeline.build(source(Positive(), (torch.ones(3),)), OPTIONS, tmp_path / "b")
    assert outcomes(result, "x: negative") == {"not compared"}


def test_drawn_values_that_eager_refuses_fall_back_to_the_example(tmp_path: Path) -> None:
    class Sorted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling() and not torch.equal(
                x[:, 0], torch.arange(float(len(x))) % 3
            ):
                raise ValueError("rows out of order")
            return x * 3

    x = torch.stack([torch.arange(3.0), torch.randn(3)], 1)
    wanted = source(Sorted(), (x,), ({0: "n"},), profiles=[{"n": (1, 3, 9)}])
    result = pipeline.build(wanted, OPTIONS, tmp_path / "b")
    assert outcomes(result, "sizes") == {"equal"}


def test_eager_that_answers_differently_is_refused(tmp_path: Path) -> None:
    class Counts(nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            type(self).calls += 1
            return x * type(self).calls

    with pytest.raises(
        RefusedError, match="eager is not deterministic: the output 'output' changed"
    ) as caught:
        pipeline.build(source(Counts(), (torch.ones(3),)), OPTIONS, tmp_path / "b")
    assert (caught.value.name, caught.value.exit_code) == ("not-deterministic", 3)


def test_a_structure_that_depends_on_the_input_is_refused(tmp_path: Path) -> None:
    class Shapes(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            if not torch.compiler.is_compiling() and len(x) > 4:
                return {"y": x}
            return (x + 1,)

    wanted = source(Shapes(), (torch.ones(3, 2),), ({0: Dim("n")},))
    with pytest.raises(RefusedError, match="forward returns another structure for other inputs"):
        pipeline.build(wanted, OPTIONS, tmp_path / "b")


def test_the_api_builds_a_module_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = nn.Linear(3, 2).eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    result = aotc.build(module, {"input": torch.ones(1, 3)}, out="b", threads=1, seed=3)
    assert result.description.name == "Linear"
    assert aotc.check("b").passed
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert module.weight.requires_grad
    assert module.weight.grad is None
    with pytest.raises(UsageError, match="unknown option 'thread'"):
        aotc.build(module, (torch.ones(1, 3),), out="c", thread=1)


def test_equal_dims_are_one_in_the_bundle(tmp_path: Path) -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def qkv(q: int, k: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn(1, 2, length, 4) for length in (q, k, k))

    dynamic = {2: Dim.DYNAMIC}
    wanted = source(Attention(), qkv(3, 5), (dynamic, dynamic, dynamic), more_inputs=[qkv(2, 9)])
    result = pipeline.build(wanted, OPTIONS, tmp_path / "b")
    assert [str(note) for note in result.notes if "'k_2' and 'v_2' are equal" in note]
    with aotc.load(result.directory) as engine, pytest.raises(InputError, match="must be 'k_2' = 5, not 4"):
        engine.run(*qkv(3, 5)[:2], torch.randn(1, 2, 4, 4))


class MaskedAttention(nn.Module):
    """Self attention with a padding mask that broadcasts over heads and queries."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(q, k, v, keep[:, None, None, :])


def test_a_mask_that_broadcasts_over_the_queries(tmp_path: Path) -> None:
    torch.manual_seed(0)
    keep = torch.tensor([[True, True, True, False], [True, False, False, False]])
    result = aotc.build(
        MaskedAttention().eval(),
        (torch.randn(2, 4, 8), keep),
        dynamic_shapes=({0: Dim("batch"), 1: Dim("seq")}, {0: Dim("batch"), 1: Dim("seq")}),
        profiles=[{"batch": (1, 2, 3), "seq": (1, 4, 9)}],
        out=tmp_path / "b",
        threads=1,
    )
    (lowered,) = [p for p in result.passes if p.name == "expand-attention-mask"]
    assert len(lowered.changes) == 1
    assert {case.outcome for engine in result.verdict.engines for case in engine.cases} == {"equal"}


def test_the_api_builds_a_source_file(tmp_path: Path) -> None:
    text = "from torch import nn, ones\n\ndef model():\n    return nn.Linear(3, 2).eval()\n\n"
    (tmp_path / "net.py").write_text(f"{text}def inputs():\n    return (ones(1, 3),)\n")
    with pytest.raises(UsageError, match="profiles is given for a source that says it itself"):
        aotc.build(tmp_path / "net.py", profiles=[{"n": (1, 2, 3)}], out=tmp_path / "b")
    with pytest.raises(UsageError, match="accuracy is given for a source"):
        aotc.build(tmp_path / "net.py", accuracy=lambda run: 0.0, out=tmp_path / "b")
    result = aotc.build(str(tmp_path / "net.py"), out=tmp_path / "b")
    assert result.description.name == "net"
