"""Hugging Face and timm folders that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import tiny_hf
import tiny_timm
import transformers
from safetensors.torch import load_file, save_file
from tiny_hf import edit_config

from error_cases.registry import build, case

NET = Path("net")
WEIGHTS = NET / "model.safetensors"


@case("RefusedError", "assets")
def an_asset_that_is_a_link() -> None:
    tiny_hf.save(tiny_hf.bert(), NET)
    (NET / "vocab.txt").symlink_to(Path("model.py").resolve())
    build("net")


@case("RefusedError", "hf-adapter")
def an_adapter_without_its_base() -> None:
    NET.mkdir()
    named = {"peft_type": "LORA", "base_model_name_or_path": "openai-community/gpt2"}
    (NET / "adapter_config.json").write_text(json.dumps(named))
    (NET / "config.json").write_text("{}")
    build("net")


@case("RefusedError", "hf-architecture")
def a_class_that_transformers_lacks() -> None:
    edit_config(tiny_hf.save(tiny_hf.bert(), NET), architectures=["NoSuchModel"])
    build("net")


@case("RefusedError", "hf-inputs")
def inputs_that_cannot_be_derived() -> None:
    sizes = {"prediction_length": 4, "context_length": 8, "d_model": 16, "lags_sequence": [1]}
    config = transformers.TimeSeriesTransformerConfig(**sizes, encoder_layers=1, decoder_layers=1)
    tiny_hf.save(transformers.TimeSeriesTransformerModel(config), NET)
    build("net")


@case("RefusedError", "hf-load")
def a_folder_without_weights() -> None:
    tiny_hf.save(tiny_hf.bert(), NET)
    WEIGHTS.unlink()
    build("net")


@case("RefusedError", "hf-quantised")
def weights_that_are_quantised() -> None:
    edit_config(tiny_hf.save(tiny_hf.bert(), NET), quantization_config={"quant_method": "gptq"})
    build("net")


@case("RefusedError", "hf-remote-code")
def a_folder_with_code_of_its_own() -> None:
    names = {"AutoModel": "own.OwnModel"}
    edit_config(tiny_hf.save(tiny_hf.bert(), NET), architectures=["OwnModel"], auto_map=names)
    build("net")


@case("RefusedError", "hf-weights")
def weights_that_are_missing() -> None:
    tiny_hf.save(tiny_hf.bert(), NET)
    weights = load_file(WEIGHTS)
    del weights["classifier.bias"]
    save_file(weights, WEIGHTS, {"format": "pt"})
    build("net")


@case("RefusedError", "timm-load")
def a_pooling_that_timm_does_not_read() -> None:
    tiny_timm.edit_config(tiny_timm.save(NET), global_pool="max")
    build("net")


@case("RefusedError", "timm-weights")
def a_timm_folder_without_weights() -> None:
    tiny_timm.save(NET)
    WEIGHTS.unlink()
    build("net")
