"""A Hugging Face folder as a source: what is derived, what travels, and what is refused."""

from __future__ import annotations

import gc
import json
import os
import pickle
import socket
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_hf
import torch
from safetensors.torch import load_file, save_file
from tiny_hf import edit_config, save

from aotc.errors import AotcError, MissingError, RefusedError, UsageError
from aotc.export import hf_assets
from aotc.export.hf_folder import load_hf_folder


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return save(tiny_hf.bert(), tmp_path / "bert")


def refused(folder: Path, error: type[AotcError] = RefusedError, **arguments: Any) -> AotcError:
    with pytest.raises(error) as caught:
        load_hf_folder(folder, **arguments)
    return caught.value


TEXT_PROFILE = {"batch": (1, 2, 8), "seq": (1, 40, 40)}


@pytest.mark.parametrize(
    ("make", "shapes", "profile"),
    [
        (
            tiny_hf.bert,
            {"input_ids": (2, 40), "attention_mask": (2, 40), "token_type_ids": (2, 40)},
            TEXT_PROFILE,
        ),
        (tiny_hf.llama, {"input_ids": (2, 40), "attention_mask": (2, 40)}, TEXT_PROFILE),
        (tiny_hf.gpt2, {"input_ids": (2, 40), "attention_mask": (2, 40)}, TEXT_PROFILE),
        (
            tiny_hf.roberta,
            {"input_ids": (2, 38), "attention_mask": (2, 38)},
            {"batch": (1, 2, 8), "seq": (1, 38, 38)},
        ),
        (tiny_hf.vit, {"pixel_values": (2, 3, 32, 32)}, {"batch": (1, 2, 8)}),
        (tiny_hf.resnet, {"pixel_values": (2, 3, 224, 224)}, {"batch": (1, 2, 8)}),
        (
            tiny_hf.clip,
            {"input_ids": (2, 40), "attention_mask": (2, 40), "pixel_values": (2, 3, 32, 32)},
            {**TEXT_PROFILE, "image_batch": (1, 2, 8)},
        ),
        (
            tiny_hf.t5,
            {"input_ids": (2, 128), "attention_mask": (2, 128), "decoder_input_ids": (2, 16)},
            {"batch": (1, 2, 8), "seq": (1, 128, 512), "target_seq": (1, 16, 64)},
        ),
        (tiny_hf.timesformer, {"pixel_values": (2, 4, 3, 32, 32)}, {"batch": (1, 2, 8)}),
        (
            tiny_hf.layoutlm,
            {
                "input_ids": (2, 40),
                "attention_mask": (2, 40),
                "token_type_ids": (2, 40),
                "bbox": (2, 40, 4),
            },
            TEXT_PROFILE,
        ),
        (
            tiny_hf.captioner,
            {"pixel_values": (2, 3, 32, 32), "decoder_input_ids": (2, 16)},
            {"batch": (1, 2, 8), "target_seq": (1, 16, 40)},
        ),
        (
            tiny_hf.wav2vec2,
            {"input_values": (2, 16_000)},
            {"batch": (1, 2, 8), "samples": (20, 16_000, 80_000)},
        ),
        (
            tiny_hf.encodec,
            {"input_values": (2, 1, 16_000)},
            {"batch": (1, 2, 8), "samples": (4_000, 16_000, 80_000)},
        ),
        (
            tiny_hf.whisper,
            {"input_features": (2, 8, 60), "decoder_input_ids": (2, 16)},
            {"batch": (1, 2, 8), "target_seq": (1, 16, 20)},
        ),
    ],
)
def test_inputs_come_from_forward_and_the_configuration(
    make: Callable[[], Any], shapes: dict[str, Any], profile: dict[str, Any], tmp_path: Path
) -> None:
    source = load_hf_folder(save(make(), tmp_path / "net"))
    assert {name: tuple(tensor.shape) for name, tensor in source.inputs.items()} == shapes
    assert source.profiles == [profile]
    with torch.inference_mode():
        result = source.model()(**source.inputs)
    assert "past_key_values" not in result


def test_an_audio_mask_is_an_input_where_the_model_was_trained_with_one(tmp_path: Path) -> None:
    folder = save(tiny_hf.wav2vec2("layer"), tmp_path / "net")
    assert set(load_hf_folder(folder).inputs) == {"input_values", "attention_mask"}
    (folder / "preprocessor_config.json").write_text('{"return_attention_mask": false}')
    assert set(load_hf_folder(folder).inputs) == {"input_values"}


@pytest.mark.parametrize(
    ("processor", "size"),
    [
        ({"size": 48}, (48, 48)),
        ({"size": {"height": 40, "width": 56}}, (40, 56)),
        ({"size": {"shortest_edge": 64}, "crop_size": {"height": 56, "width": 56}}, (56, 56)),
        ({"size": {"shortest_edge": 64}, "crop_size": 56, "do_center_crop": False}, (64, 64)),
    ],
)
def test_the_size_of_images_comes_from_the_processor(
    processor: dict[str, Any], size: tuple[int, int], tmp_path: Path
) -> None:
    folder = save(tiny_hf.resnet(), tmp_path / "net")
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    assert load_hf_folder(folder).inputs["pixel_values"].shape == (2, 3, *size)


def test_sizes_given_by_the_user_replace_the_profile_or_make_an_axis_dynamic(tmp_path: Path) -> None:
    source = load_hf_folder(save(tiny_hf.resnet(), tmp_path / "net"), {"height": (32, 40, 64)})
    assert source.inputs["pixel_values"].shape == (2, 3, 40, 224)
    assert source.dynamic_shapes == {"pixel_values": {0: "batch", 2: "height"}}
    assert source.profiles == [{"batch": (1, 2, 8), "height": (32, 40, 64)}]
    assert source.path == f"{tmp_path / 'net'} --dim height=32:40:64"
    error = refused(tmp_path / "net", UsageError, sizes={"hight": (1, 2, 3)})
    assert error.message == "no input has the dim 'hight'"
    assert error.hint == "dims: batch, height, width"


def test_the_tokenizer_says_how_long_a_text_may_be_and_what_it_gives(bert: Path) -> None:
    tiny_hf.save_tokenizer(bert)
    assert load_hf_folder(bert).profiles == [{"batch": (1, 2, 8), "seq": (1, 32, 32)}]
    (bert / "tokenizer_config.json").write_text('{"model_input_names": ["input_ids", "attention_mask"]}')
    assert set(load_hf_folder(bert).inputs) == {"input_ids", "attention_mask"}


def test_files_that_are_neither_weights_nor_code_travel(bert: Path) -> None:
    tiny_hf.save_tokenizer(bert)
    (bert / "LICENSE").write_text("free")
    (bert / "model.py").write_text("raise SystemExit")
    (bert / "a b.txt").write_text("")
    (bert / ".secret.json").write_text("{}")
    source = load_hf_folder(bert)
    names = [path.name for path in source.assets]
    assert names == ["LICENSE", "config.json", "tokenizer.json", "tokenizer_config.json"]
    assert source.notes == ("'a b.txt' does not travel in the bundle: not a name that one may have",)


def test_steps_around_the_model_are_noted(bert: Path) -> None:
    (bert / "modules.json").write_text("[]")
    assert load_hf_folder(bert).notes == (
        "modules.json names steps around the model (pooling, normalising) that are not in the engine",
    )


def test_assets_have_a_limit(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_assets, "LARGEST", 2**20)
    (bert / "vocab.txt").write_bytes(bytes(2**20))
    error = refused(bert)
    assert error.name == "assets"
    assert "have 1 MiB, more than 1 MiB in all; the largest is vocab.txt" in error.message


def test_a_link_out_of_the_folder_is_refused_and_a_cache_of_a_hub_is_not(bert: Path, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "hub" / "snapshots" / "1", tmp_path / "hub" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for index, path in enumerate(sorted(bert.iterdir())):
        path.rename(blobs / str(index))
        (snapshot / path.name).symlink_to(f"../../blobs/{index}")
    assert [path.name for path in load_hf_folder(snapshot).assets] == ["config.json"]
    (tmp_path / "private.txt").write_text("secret")
    (snapshot / "vocab.txt").symlink_to(tmp_path / "private.txt")
    assert refused(snapshot).message == "vocab.txt is a link to a file outside the folder"


@pytest.mark.parametrize(
    ("weights", "how"), [("shards", {"max_shard_size": "20KB"}), ("bin", {}), ("whole", {})]
)
def test_weights_of_each_kind_are_the_ones_saved(
    weights: str, how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_hf.llama()
    folder = save(model, tmp_path / "net", **how)
    if weights == "shards":
        assert len(list(folder.glob("model-*.safetensors"))) > 1
    if weights == "bin":
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")

    def offline(*_: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", offline)
    monkeypatch.setattr(socket, "getaddrinfo", offline)
    loaded = load_hf_folder(folder).model()
    assert not loaded.training
    want = model.state_dict()
    assert all(torch.equal(tensor, want[name]) for name, tensor in loaded.state_dict().items())


class Planted:
    def __reduce__(self) -> Any:
        return os.mkdir, ("planted",)


def test_a_pickle_that_runs_code_is_refused(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (bert / "model.safetensors").unlink()
    torch.save({"classifier.bias": Planted()}, bert / "pytorch_model.bin", pickle_module=pickle)
    error = refused(bert)
    assert error.name == "hf-load"
    assert error.hint is not None
    assert "model.safetensors" in error.hint
    assert not (tmp_path / "planted").exists()


def test_weights_in_half_precision_are_loaded_in_float32_and_noted(tmp_path: Path) -> None:
    source = load_hf_folder(save(tiny_hf.bert().to(torch.bfloat16), tmp_path / "net"))
    assert {p.dtype for p in source.model().parameters()} == {torch.float32}
    assert source.notes == ("weights stored in bfloat16 are compared and compiled in float32",)


def test_tied_weights_are_not_missing_and_the_module_is_handed_over(tmp_path: Path) -> None:
    folder = save(tiny_hf.gpt2(), tmp_path / "net")
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    source = load_hf_folder(folder)
    first = source.model()
    gone = weakref.ref(first)
    again = source.model()
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    del first
    gc.collect()
    assert gone() is None


def test_missing_weights_are_refused_by_name(bert: Path) -> None:
    weights = load_file(bert / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, bert / "model.safetensors", {"format": "pt"})
    error = refused(bert)
    assert error.name == "hf-weights"
    assert error.message == "the weights lack classifier.bias, which transformers would set to random values"


def test_left_over_weights_are_refused_by_name(bert: Path) -> None:
    edit_config(bert, architectures=["BertModel"])
    error = refused(bert)
    assert error.message == ("BertModel has no place for classifier.bias, classifier.weight of the weights")


def test_weights_of_another_shape_are_refused(bert: Path) -> None:
    edit_config(bert, vocab_size=61)
    error = refused(bert)
    assert error.name in ("hf-load", "hf-weights")
    assert error.exit_code == 3


def test_a_folder_without_weights_is_refused(bert: Path) -> None:
    (bert / "model.safetensors").unlink()
    assert refused(bert).message.startswith("transformers cannot load BertForSequenceClassification: OSError")


@pytest.mark.parametrize("name", ["NoSuchModel", "BertConfig", "__name__", "logging"])
def test_a_class_that_is_no_model_is_refused_by_name(bert: Path, name: str) -> None:
    edit_config(bert, architectures=[name])
    error = refused(bert)
    assert error.name == "hf-architecture"
    assert error.message.endswith(f"has no model class '{name}'")


def test_without_a_class_the_bare_model_is_built_with_a_note(tmp_path: Path) -> None:
    folder = save(tiny_hf.roberta(), tmp_path / "net")
    edit_config(folder, architectures=None)
    source = load_hf_folder(folder)
    assert type(source.model()).__name__ == "RobertaModel"
    assert source.notes == (
        "config.json names no architecture: the bare model of the type 'roberta' is built",
    )


REMOTE = """
import transformers

class OwnConfig(transformers.BertConfig):
    model_type = "own"

class OwnModel(transformers.BertForSequenceClassification):
    config_class = OwnConfig

open("ran", "w").close()
"""


def test_code_of_the_folder_runs_only_when_trusted(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers.dynamic_module_utils as dynamic

    monkeypatch.setattr(dynamic, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.chdir(tmp_path)
    (bert / "own.py").write_text(REMOTE)
    names = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
    edit_config(bert, architectures=["OwnModel"], model_type="own", auto_map=names)
    error = refused(bert)
    assert (error.name, error.where) == ("hf-remote-code", "auto_map in config.json")
    assert not (tmp_path / "ran").exists()
    source = load_hf_folder(bert, trust_remote_code=True)
    assert type(source.model()).__name__ == "OwnModel"
    assert (tmp_path / "ran").exists()
    edit_config(bert, auto_map={"AutoModel": "someone/else--own.OwnModel"})
    assert "no code of this folder defines" in refused(bert, trust_remote_code=True).message


def test_quantised_weights_are_refused(bert: Path) -> None:
    edit_config(bert, quantization_config={"quant_method": "gptq"})
    assert refused(bert).message == "the weights are quantised (gptq)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no config.json"),
        ("{", "config.json is not valid JSON"),
        ("[]", "config.json must hold an object"),
    ],
)
def test_a_folder_that_is_no_model(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert message in refused(tmp_path, UsageError).message


def test_inputs_that_cannot_be_derived_are_refused(tmp_path: Path) -> None:
    import transformers

    sizes = {"prediction_length": 4, "context_length": 8, "d_model": 16, "lags_sequence": [1]}
    config = transformers.TimeSeriesTransformerConfig(**sizes, encoder_layers=1, decoder_layers=1)
    folder = save(transformers.TimeSeriesTransformerModel(config), tmp_path / "net")
    error = refused(folder)
    assert error.name == "hf-inputs"
    assert error.message.startswith("no example of the input 'past_values' of TimeSeriesTransformerModel")


def test_images_inside_a_text_are_refused(tmp_path: Path) -> None:
    import transformers

    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**tiny_hf.IMAGE),
        text_config=transformers.LlamaConfig(**tiny_hf.TEXT),
        vision_feature_layer=-1,
    )
    folder = save(transformers.LlavaForConditionalGeneration(config), tmp_path / "net")
    assert "at the image tokens of a text" in refused(folder).message


def test_inputs_that_eager_does_not_take_are_refused(tmp_path: Path) -> None:
    folder = save(tiny_hf.vit(), tmp_path / "net")
    with pytest.raises(RefusedError) as caught:
        load_hf_folder(folder, {"height": (32, 48, 64)})
    assert caught.value.name == "hf-inputs"
    assert "ViTForImageClassification does not take" in caught.value.message
    assert "(pixel_values [2, 3, 48, 32]): ValueError: Input image size (48*32)" in caught.value.message
    assert str(caught.value.where).startswith("modeling_vit.py:")


def test_a_package_that_the_model_needs_is_named(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def missing(*_: Any, **__: Any) -> Any:
        raise ImportError("needs timm\nmore text")

    monkeypatch.setattr(transformers.BertForSequenceClassification, "from_pretrained", missing)
    error = refused(bert, MissingError)
    assert error.exit_code == 5
    assert error.message.endswith("needs a package that is not installed: needs timm")
