"""Whole builds of Hugging Face folders: verified, with the files that a server needs beside the engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_hf
import torch
from tiny_hf import save
from tokenizers import Tokenizer

import aotc
from aotc import pipeline
from aotc.cli import main
from aotc.config import Options
from aotc.errors import IntegrityError, UsageError
from aotc.export.hf_folder import load_hf_folder

OPTIONS = Options(threads=1)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the model ``bert`` and its bundle ``dist``."""
    folder = tmp_path_factory.mktemp("hf")
    bert = save(tiny_hf.bert(), folder / "bert")
    tiny_hf.save_tokenizer(bert)
    (bert / "LICENSE").write_text("free")
    assert main.run(["build", str(bert), "-o", str(folder / "dist"), "--dim", "seq=1:6:20"]) == 0
    return folder


@pytest.fixture
def dist(work: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(work / "dist", tmp_path / "dist"))


def test_a_text_goes_through_tokenizer_and_engine_as_through_transformers(work: Path) -> None:
    import transformers

    with aotc.load(work / "dist") as engine:
        tokenizer = Tokenizer.from_buffer(engine.asset("tokenizer.json"))
        labels = json.loads(engine.asset("config.json"))["id2label"]
        encoded = tokenizer.encode("w3 w17 w59")
        feeds = {
            "input_ids": np.array([encoded.ids]),
            "attention_mask": np.array([encoded.attention_mask]),
            "token_type_ids": np.array([encoded.type_ids]),
        }
        logits = engine.run(**feeds).logits
    eager = transformers.BertForSequenceClassification.from_pretrained(work / "bert", local_files_only=True)
    with torch.inference_mode():
        want = eager(**{name: torch.from_numpy(value) for name, value in feeds.items()}).logits
    np.testing.assert_allclose(logits, want.numpy(), rtol=1e-5, atol=1e-6)
    assert labels[str(int(logits.argmax()))] in ("no", "yes")


def test_assets_are_the_files_of_the_folder_and_inspect_lists_them(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with aotc.load(work / "dist") as engine:
        assert engine.description.assets == (
            "LICENSE",
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
        )
        for name in engine.description.assets:
            assert engine.asset(name) == (work / "bert" / name).read_bytes()
        with pytest.raises(UsageError, match=r"has no asset 'model\.onnx'"):
            engine.asset("model.onnx")
    with pytest.raises(UsageError, match="this engine is closed"):
        engine.asset("LICENSE")
    assert main.run(["inspect", str(work / "dist"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assets"]["LICENSE"] == 4
    assert main.run(["inspect", str(work / "dist")]) == 0
    assert "assets: LICENSE 0.0 KiB, config.json" in capsys.readouterr().out


@pytest.mark.parametrize("damage", ["changed", "missing", "extra", "link"])
def test_a_damaged_asset_is_an_integrity_error(dist: Path, damage: str) -> None:
    path = dist / "assets" / "tokenizer.json"
    content = path.read_bytes()
    match damage:
        case "changed":
            path.write_bytes(content.replace(b"w2", b"w3", 1))
        case "missing":
            path.unlink()
        case "extra":
            (dist / "assets" / "more.json").write_text("{}")
        case "link":
            path.rename(dist.parent / "tokenizer.json")
            path.symlink_to(dist.parent / "tokenizer.json")
    with pytest.raises(IntegrityError):
        aotc.load(dist)
    assert main.run(["inspect", str(dist)]) == 4


def test_the_digest_covers_the_assets(work: Path, tmp_path: Path) -> None:
    bert = Path(shutil.copytree(work / "bert", tmp_path / "bert"))
    sizes = {"seq": (1, 6, 20)}
    first = json.loads((work / "dist" / "bundle.json").read_text())["digest"]
    same = pipeline.build(load_hf_folder(bert, sizes), OPTIONS, tmp_path / "same")
    (bert / "LICENSE").write_text("paid")
    other = pipeline.build(load_hf_folder(bert, sizes), OPTIONS, tmp_path / "other")
    assert first == same.description.digest != other.description.digest


def test_check_runs_eager_on_the_folder_again(work: Path, tmp_path: Path) -> None:
    bert, dist = work / "bert", work / "dist"
    assert main.run(["check", str(dist), str(bert), "--threads", "1"]) == 0
    assert aotc.check(dist, bert).passed
    tensors = {name: t.numpy() for name, t in load_hf_folder(bert).inputs.items()}
    np.savez(tmp_path / "one.npz", **{name: value[:, :5] for name, value in tensors.items()})
    assert main.run(["check", str(dist), str(bert), "--inputs", str(tmp_path / "one.npz")]) == 0


@pytest.mark.parametrize(
    ("make", "sizes", "outputs"),
    [
        (tiny_hf.llama, {"seq": (1, 6, 20)}, {"logits"}),
        (tiny_hf.vit, {}, {"logits"}),
        (tiny_hf.mixtral, {"seq": (1, 6, 20)}, {"logits"}),
        (
            tiny_hf.clip,
            {"seq": (1, 6, 20)},
            {"logits_per_image", "logits_per_text", "text_embeds", "image_embeds"},
        ),
    ],
)
def test_other_kinds_of_model(
    make: Callable[[], Any], sizes: dict[str, Any], outputs: set[str], tmp_path: Path
) -> None:
    source = load_hf_folder(save(make(), tmp_path / "net"), sizes)
    result = pipeline.build(source, OPTIONS, tmp_path / "dist")
    assert result.verdict.passed
    assert outputs <= {spec.name for spec in result.description.signature.outputs}
