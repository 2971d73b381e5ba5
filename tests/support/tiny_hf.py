"""Tiny Hugging Face folders with random weights, made from configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

TEXT: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
IMAGE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}


def bert() -> Any:
    labels = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT, **labels))


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TEXT, num_key_value_heads=2))


def gpt2() -> Any:
    """Its head is tied to the embedding and is not in the file."""
    sizes = {"vocab_size": 60, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 40}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


def roberta() -> Any:
    """Its positions count from behind the padding entry: two fewer than the table has."""
    return transformers.RobertaModel(transformers.RobertaConfig(**TEXT, pad_token_id=1, type_vocab_size=1))


def vit() -> Any:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGE))


def clip() -> Any:
    config = transformers.CLIPConfig(
        text_config={**TEXT, "projection_dim": 16},
        vision_config={**IMAGE, "projection_dim": 16},
        projection_dim=16,
    )
    return transformers.CLIPModel(config)


def timesformer() -> Any:
    return transformers.TimesformerModel(transformers.TimesformerConfig(**IMAGE, num_frames=4))


def layoutlm() -> Any:
    return transformers.LayoutLMModel(transformers.LayoutLMConfig(**TEXT, max_2d_position_embeddings=64))


def captioner() -> Any:
    """An image encoder beside a text decoder: the sizes of each are in a configuration of its own."""
    text = {**TEXT, "is_decoder": True, "add_cross_attention": True}
    parts = transformers.ViTConfig(**IMAGE), transformers.BertConfig(**text)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        *parts, decoder_start_token_id=1, pad_token_id=0
    )
    return transformers.VisionEncoderDecoderModel(config)


def mixtral() -> Any:
    experts = {"num_local_experts": 4, "num_key_value_heads": 2}
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**TEXT, **experts))


def t5() -> Any:
    sizes = {"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))


def resnet() -> Any:
    sizes = {"hidden_sizes": [8, 16], "depths": [1, 1], "embedding_size": 8, "layer_type": "basic"}
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes))


def wav2vec2(norm: str = "group") -> Any:
    waves = {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 4)}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}
    config = transformers.Wav2Vec2Config(**TEXT, **waves, **positions, feat_extract_norm=norm)
    return transformers.Wav2Vec2ForCTC(config)


def encodec() -> Any:
    """How many samples give one frame is not in its configuration."""
    sizes = {"num_filters": 4, "hidden_size": 8, "upsampling_ratios": [4, 2], "codebook_size": 16}
    return transformers.EncodecModel(transformers.EncodecConfig(**sizes, codebook_dim=8))


def whisper() -> Any:
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 48}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 48}
    limits = {"max_source_positions": 30, "max_target_positions": 20, "num_mel_bins": 8, "vocab_size": 60}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = transformers.WhisperConfig(**sizes, **heads, **limits, **ids, begin_suppress_tokens=None)
    return transformers.WhisperForConditionalGeneration(config)


def save(model: Any, folder: Path, **arguments: Any) -> Path:
    """Write ``model`` to ``folder`` with seeded weights, biases too, and return the folder."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter.dtype) * 0.1)
    model.save_pretrained(folder, **arguments)
    return folder


def save_tokenizer(folder: Path) -> Tokenizer:
    """Write a tokenizer of 60 words beside the model and return it."""
    words = {"[PAD]": 0, "[UNK]": 1} | {f"w{i}": i for i in range(2, 60)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 32}))
    return tokenizer


def edit_config(folder: Path, **changes: Any) -> None:
    """Change keys of config.json; None removes one."""
    path = folder / "config.json"
    content = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
