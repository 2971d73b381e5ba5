"""A model in parts: every part is built and compared on its own, and all are published together or none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from parts_model import PARTS
from torch import nn
from torch.export import Dim
from zoo import ZOO

import aotc
from aotc import parts, pipeline
from aotc.cli.main import run
from aotc.config import Bound, Options
from aotc.errors import CompatibilityError, IntegrityError, RefusedError, UsageError
from aotc.export.source import PartsSource, load_source
from aotc.parity import validate
from aotc.parity.failure import ParityError
from aotc.rewrite import Context, Pass, PassResult

OPTIONS = Options(threads=1)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``model.py`` and its bundle ``dist``; nobody writes into it."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "model.py").write_text(PARTS)
    parts.build(load(folder / "model.py"), OPTIONS, folder / "dist")
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a variant of the source."""

    def variant(*replaced: tuple[str, str], end: str = "") -> Path:
        text = PARTS
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "model.py"
        path.write_text(text + end)
        return path

    return variant


def load(path: Path) -> PartsSource:
    source = load_source(path)
    assert isinstance(source, PartsSource)
    return source


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_parts_run_one_after_the_other_as_eager_does(built: Path) -> None:
    modules = load(built / "model.py").parts
    ids = torch.tensor([[3, 1, 4], [1, 5, 9], [2, 6, 5]])
    with aotc.load(built / "dist", threads=1) as engines:
        assert set(engines) == {"encoder", "decoder"}
        hidden = engines["encoder"].run(ids)
        got = engines["decoder"].run(ids[:, :1], hidden=hidden)["logits"]
        with pytest.raises(UsageError, match="the bundle has no part 'head'"):
            engines["head"]
    with torch.no_grad():
        want = modules["decoder"].model()(ids[:, :1], modules["encoder"].model()(ids))["logits"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(UsageError, match="this engine is closed"):
        engines["encoder"].run(ids)


def test_a_part_is_a_bundle_of_its_own(built: Path) -> None:
    with aotc.load(built / "dist/encoder") as engine:
        assert engine.run(torch.tensor([[1, 2]])).shape == (1, 2, 6)


def test_the_metric_runs_all_parts(built: Path) -> None:
    verdict, _ = parts.check_source(built / "dist", load(built / "model.py"), threads=1)
    assert verdict.passed
    assert verdict.accuracy is not None
    assert verdict.accuracy.eager == verdict.accuracy.engine == 10 / 3
    assert json.loads((built / "dist/accuracy.json").read_text())["engine"] == 10 / 3


def test_the_same_source_gives_the_same_digest(built: Path, tmp_path: Path) -> None:
    again = parts.build(load(built / "model.py"), OPTIONS, tmp_path / "other/b")
    before = json.loads((built / "dist/bundle.json").read_text())
    assert again.description.digest == before["digest"]
    assert again.parts["encoder"].directory == tmp_path / "other/b/encoder"
    assert left(tmp_path / "other") == ["b"]


def test_a_part_of_a_source_is_a_source(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "one"
    assert run(["build", f"{built / 'model.py'}:encoder", "-o", str(out)]) == 0
    digests = {json.loads((b / "bundle.json").read_text())["digest"] for b in (out, built / "dist/encoder")}
    assert len(digests) == 1


def test_a_refused_part_publishes_nothing_and_names_itself(tmp_path: Path, write: Any) -> None:
    path = write(("weights @ hidden) @", "weights @ hidden + torch.rand(1)) @"))
    with pytest.raises(RefusedError, match="part 'decoder': ") as caught:
        parts.build(load(path), OPTIONS, tmp_path / "dist")
    assert caught.value.exit_code == 3
    assert left(tmp_path) == ["model.py"]


class Doubles(Pass):
    """A wrong pass: doubles what the decoder returns."""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        out = model.graph.outputs[0]
        if out.name != "logits":
            return PassResult((), ())
        node = ir.Node("", "Add", [out, out], name="doubled")
        node.outputs[0].name, out.name = "logits", "single"
        node.outputs[0].type, node.outputs[0].shape = out.type, out.shape
        model.graph.append(node)
        model.graph.outputs[0] = node.outputs[0]
        return PassResult(("doubled",), ())

    @classmethod
    def name(cls) -> str:
        return "doubles"


def test_a_part_that_differs_publishes_nothing_and_its_inputs_fail_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any
) -> None:
    path = write()
    monkeypatch.setattr(validate, "region_validator", lambda *_: None)  # which would put it back
    monkeypatch.setattr(pipeline, "OPTIMISE", (*pipeline.OPTIMISE, Doubles()))
    with pytest.raises(ParityError, match=r"part 'decoder': .* cases fail; worst: differs on") as caught:
        parts.build(load(path), OPTIONS, tmp_path / "dist")
    saved = tmp_path / "dist.decoder.failed.npz"
    assert caught.value.hint == f"aotc check {path}:decoder --inputs {saved} --bisect"
    assert {part: v.passed for part, v in caught.value.verdict.parts.items()} == {
        "encoder": True,
        "decoder": False,
    }
    assert left(tmp_path) == ["dist.decoder.failed.html", "dist.decoder.failed.npz", "model.py"]
    assert run(["check", f"{path}:decoder", "--inputs", str(saved)]) == 1
    monkeypatch.undo()
    assert run(["check", f"{path}:decoder", "--inputs", str(saved)]) == 0


def test_a_metric_that_differs_publishes_nothing_and_keeps_the_old_bundle(
    built: Path, tmp_path: Path, write: Any
) -> None:
    shutil.copytree(built / "dist", tmp_path / "dist")
    counts = "\n\ncalls = []\n\n\ndef accuracy(run):\n    calls.append(1)\n    return min(len(calls), 2)\n"
    with pytest.raises(ParityError, match=r"accuracy\(\) is 2 on the engine and 1 on eager"):
        parts.build(load(write(end=counts)), OPTIONS, tmp_path / "dist")
    assert left(tmp_path) == ["dist", "model.py"]
    aotc.load(tmp_path / "dist").close()


def test_parts_may_be_replaced_by_one_graph_and_back(built: Path, tmp_path: Path) -> None:
    source = load(built / "model.py")
    for each in (source.parts["encoder"], source):
        build = parts.build if isinstance(each, PartsSource) else pipeline.build
        build(each, OPTIONS, tmp_path / "dist")
        aotc.load(tmp_path / "dist").close()
    assert left(tmp_path) == ["dist"]


def test_nothing_is_built_into_a_bundle(built: Path) -> None:
    with pytest.raises(UsageError, match="dist/encoder lies in the bundle"):
        pipeline.build(load(built / "model.py").parts["encoder"], OPTIONS, built / "dist/encoder")


def test_a_check_against_another_source_fails(built: Path, write: Any) -> None:
    verdict, _ = parts.check_source(
        built / "dist", load(write(("torch.tanh(", "1.01 * torch.tanh("))), threads=1
    )
    assert isinstance(verdict, aotc.parity.verdict.PartsVerdict)
    assert verdict.failed == "encoder"
    more = ('"decoder": Decoder(table).eval()}', '"decoder": Decoder(table).eval(), "x": Decoder(table)}')
    inputs = ('"decoder": {"ids": IDS', '"x": (IDS,), "decoder": {"ids": IDS')
    with pytest.raises(CompatibilityError, match="the source has the parts encoder, decoder, x, the bundle"):
        parts.check_source(built / "dist", load(write(more, inputs)))


def test_a_bound_belongs_to_the_output_of_a_part(write: Any, tmp_path: Path) -> None:
    bound = Bound(atol=1e-3)
    options = OPTIONS.model_copy(update={"tolerance": {"decoder.logits": bound}})
    result = parts.build(load(write()), options, tmp_path / "dist")
    assert result.parts["decoder"].description.options["tolerance"] == {"logits": bound.model_dump()}
    assert result.parts["encoder"].description.options["tolerance"] == {}
    options = OPTIONS.model_copy(update={"tolerance": {"logits": bound}})
    with pytest.raises(UsageError, match="tolerance names the output 'logits', which is of no part"):
        parts.build(load(write()), options, tmp_path / "other")


@pytest.mark.parametrize(
    ("replaced", "text"),
    [
        (('"encoder": [SIZES]', '"encodre": [SIZES]'), "profiles names what is no part: encodre"),
        (
            ("def inputs():", "def more_inputs():\n    return []\n\n\ndef inputs():"),
            "more_inputs must be a dict",
        ),
        (('return {"encoder": (IDS,), ', "return {"), "inputs has nothing for the part 'encoder'"),
        (('"encoder": Enc', '"golden": Enc'), "a part cannot be called 'golden'"),
        (('"encoder": Enc', '"en-coder": Enc'), "a part cannot be called 'en-coder'"),
        (('"encoder": Enc', '"Decoder": Enc'), "'Decoder' and 'decoder' are one on a file system"),
        (
            ('return {"encoder": Encoder(table).eval(), ', "return {} and {"),
            "a model in parts has at least one",
        ),
    ],
)
def test_what_does_not_fit_the_parts_is_an_error(write: Any, replaced: tuple[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        load(write(replaced))
    assert str(caught.value.where).endswith("model.py")


def test_from_python(tmp_path: Path) -> None:
    torch.manual_seed(0)
    modules = {"up": nn.Linear(3, 5).eval(), "down": nn.Linear(5, 2).eval()}
    result = aotc.build(
        modules,
        {"up": (torch.ones(2, 3),), "down": (torch.ones(2, 5),)},
        dynamic_shapes={"up": ({0: Dim("batch")},)},
        profiles={"up": [{"batch": (1, 2, 4)}]},
        accuracy=lambda run: float(np.sum(run["down"](run["up"](torch.ones(2, 3))))),
        out=tmp_path / "dist",
        threads=1,
    )
    assert list(result.parts) == ["up", "down"]
    assert result.verdict.passed
    assert result.parts["up"].description.signature.dims == ("batch",)
    assert result.description.name == "up-down"
    assert aotc.check(tmp_path / "dist").passed
    with pytest.raises(UsageError, match="inputs must be a dict by part"):
        aotc.build(modules, (torch.ones(2, 3),), out=tmp_path / "other")


def test_a_check_of_a_part_writes_nothing_into_the_bundle(built: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(built / "dist", tmp_path / "dist"))
    assert aotc.check(whole / "encoder").passed
    assert left(tmp_path) == ["dist", "dist.encoder.checked.json"]
    assert aotc.check(whole).passed
    aotc.load(whole).close()


def test_another_build_of_a_part_is_refused_in_its_place(built: Path, tmp_path: Path) -> None:
    whole = Path(shutil.copytree(built / "dist", tmp_path / "dist"))
    shutil.rmtree(whole / "encoder")
    shutil.copytree(whole / "decoder", whole / "encoder")
    with pytest.raises(IntegrityError, match="the part 'encoder' is another bundle"):
        aotc.load(whole)


class Decoding(nn.Module):
    """The decoder of an encoder-decoder with its head."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        decoder_input_ids: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_attention_mask: torch.Tensor,
    ) -> torch.Tensor:
        return self.model(
            encoder_outputs=(encoder_hidden_states,),
            attention_mask=encoder_attention_mask,
            decoder_input_ids=decoder_input_ids,
            use_cache=False,
        ).logits


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_an_encoder_and_decoder_in_two_decode_as_transformers_does(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ZOO[name]().eval()
    model.generation_config.forced_eos_token_id = None
    encoder, decoder = model.get_encoder(), Decoding(model).eval()
    ids = torch.randint(2, 60, (2, 5))
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    with torch.no_grad():
        hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    batch, seq, steps = Dim("batch"), Dim("seq"), Dim("steps")
    sizes = {"batch": (1, 2, 3), "seq": (2, 5, 8)}
    aotc.build(
        {"encoder": encoder, "decoder": decoder},
        {
            "encoder": {"input_ids": ids, "attention_mask": mask},
            "decoder": (ids[:, :3], hidden, mask),
        },
        dynamic_shapes={
            "encoder": {name: {0: batch, 1: seq} for name in ("input_ids", "attention_mask")},
            "decoder": ({0: batch, 1: steps}, {0: batch, 1: seq}, {0: batch, 1: seq}),
        },
        profiles={"encoder": [sizes], "decoder": [{**sizes, "steps": (1, 3, 6)}]},
        out=tmp_path / "two",
        threads=1,
    )
    start = torch.zeros(2, 1, dtype=torch.int64)
    with torch.no_grad():
        want = model.generate(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=start,
            decoder_start_token_id=0,
            max_new_tokens=4,
            do_sample=False,
            eos_token_id=None,
        )
    with aotc.load(tmp_path / "two", threads=1) as engines:
        states = engines["encoder"].run(input_ids=ids, attention_mask=mask)["last_hidden_state"]
        found = start.numpy()
        for _ in range(4):
            logits = engines["decoder"].run(found, states, mask)
            found = np.concatenate([found, logits[:, -1:].argmax(-1)], axis=1)
    np.testing.assert_array_equal(found, want)
