"""An adapter folder: merged into its base model, or refused with the reason."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import tiny_hf
import torch
from safetensors.torch import load_file, save_file

from aotc.errors import MissingError, RefusedError
from aotc.export.hf_folder import load_hf_folder

peft = pytest.importorskip("peft")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tiny_hf.save(tiny_hf.gpt2(), tmp_path / "base")
    tiny_hf.save_tokenizer(folder)
    return folder


def write_adapter(base: Path, config: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's, about transformers
        model = peft.get_peft_model(load_hf_folder(base).model(), config)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(len(name)))
    model.save_pretrained(base.parent / "adapter", save_embedding_layers=False)
    edit(base.parent / "adapter", base_model_name_or_path=str(base))
    return base.parent / "adapter"


def edit(adapter: Path, **changes: Any) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture
def adapter(base: Path) -> Path:
    return write_adapter(
        base, peft.LoraConfig(r=2, lora_alpha=6, target_modules=["c_attn"], fan_in_fan_out=True)
    )


def test_the_adapter_is_added_to_the_weights_of_the_base(base: Path, adapter: Path) -> None:
    before, after = load_hf_folder(base).model(), load_hf_folder(adapter).model()
    assert type(after) is type(before)
    name = "transformer.h.0.attn.c_attn"
    low_rank = load_file(adapter / "adapter_model.safetensors")
    down, up = (low_rank[f"base_model.model.{name}.lora_{side}.weight"] for side in "AB")
    want = before.get_parameter(f"{name}.weight") + 3.0 * (up @ down).T
    torch.testing.assert_close(after.get_parameter(f"{name}.weight"), want, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(after.transformer.wte.weight, before.transformer.wte.weight, rtol=0, atol=0)
    assert not any("lora" in key for key in after.state_dict())
    assert not after.training


def test_files_of_both_travel_and_the_adapters_come_first(base: Path, adapter: Path) -> None:
    (base / "README.md").write_text("base")
    (adapter / "README.md").write_text("adapter")
    (adapter / "adapter_model.json").write_text("{}")
    assets = {path.name: path.parent.name for path in load_hf_folder(adapter).assets}
    assert assets["README.md"] == "adapter"
    assert assets["config.json"] == assets["tokenizer.json"] == "base"
    assert "adapter_config.json" not in assets


def test_a_base_that_is_relative_to_the_adapter(adapter: Path) -> None:
    edit(adapter, base_model_name_or_path="../base")
    assert load_hf_folder(adapter).name == "adapter"


def test_a_base_that_would_be_downloaded_is_refused(adapter: Path) -> None:
    edit(adapter, base_model_name_or_path="openai-community/gpt2")
    with pytest.raises(RefusedError, match="'openai-community/gpt2' is no folder here") as caught:
        load_hf_folder(adapter)
    assert (caught.value.name, caught.value.where) == (
        "hf-adapter",
        "base_model_name_or_path in adapter_config.json",
    )


@pytest.mark.parametrize("change", ["missing", "left over"])
def test_weights_that_do_not_fit_are_refused_by_name(adapter: Path, change: str) -> None:
    path = adapter / "adapter_model.safetensors"
    weights = load_file(path)
    if change == "missing":
        del weights["base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"]
        text = "the adapter adapter lacks base_model.model.transformer.h.0.attn.c_attn.lora_B.weight"
    else:
        weights["base_model.model.score.weight"] = torch.ones(2, 32)
        text = "GPT2LMHeadModel has no place for base_model.model.score.weight"
    save_file(weights, path)
    with pytest.raises(RefusedError) as caught:
        load_hf_folder(adapter)
    assert caught.value.message == text


def test_a_kind_that_cannot_be_merged_is_refused(base: Path) -> None:
    adapter = write_adapter(base, peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))
    with pytest.raises(RefusedError, match="an adapter of the type PROMPT_TUNING cannot be merged"):
        load_hf_folder(adapter)


def test_without_peft_the_extra_is_named(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingError) as caught:
        load_hf_folder(adapter)
    assert caught.value.hint == 'pip install "aotc[hf]"'


def test_without_safetensors_it_is_refused(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(RefusedError, match=r"the adapter has no adapter_model\.safetensors"):
        load_hf_folder(adapter)
