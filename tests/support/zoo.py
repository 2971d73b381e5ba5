"""The zoo: small models with random weights, each from its configuration: transformers', then timm's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tiny_hf
import transformers
from tiny_hf import TEXT

GROUPED = {"num_key_value_heads": 2, "head_dim": 8}


def _text(name: str, head: str, **changes: Any) -> Callable[[], Any]:
    def make() -> Any:
        config = getattr(transformers, f"{name}Config")(**{**TEXT, **changes})
        return getattr(transformers, f"{name}{head}")(config)

    return make


def _seq2seq() -> Any:
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    widths = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 40}
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **heads, **widths))


def _swin() -> Any:
    sizes = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "image_size": 32}
    return transformers.SwinForImageClassification(transformers.SwinConfig(**sizes, patch_size=2))


def _convnext() -> Any:
    sizes = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1], "image_size": 64}
    return transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**sizes))


def _segformer() -> Any:
    sizes = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4]}
    config = transformers.SegformerConfig(**sizes, decoder_hidden_size=16, image_size=64)
    return transformers.SegformerForSemanticSegmentation(config)


def _detr() -> Any:
    backbone = transformers.ResNetConfig(
        hidden_sizes=[8, 16], depths=[1, 1], embedding_size=8, layer_type="basic", out_features=["stage2"]
    )
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "num_queries": 5}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    widths = {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    config = transformers.DetrConfig(
        **sizes, **heads, **widths, backbone_config=backbone, use_timm_backbone=False, backbone=None
    )
    return transformers.DetrForObjectDetection(config)


ZOO: dict[str, Callable[[], Any]] = {
    "Llama": tiny_hf.llama,
    "Qwen2": _text("Qwen2", "ForCausalLM", num_key_value_heads=2),
    "Qwen3": _text("Qwen3", "ForCausalLM", **GROUPED),
    "Gemma2": _text("Gemma2", "ForCausalLM", **GROUPED, sliding_window=16),
    "Gemma3": _text(
        "Gemma3Text", "ForCausalLM".replace("ForCausalLM", "Model"), **GROUPED, sliding_window=16
    ),
    "Phi3": _text("Phi3", "ForCausalLM", num_key_value_heads=2, pad_token_id=0),
    "GPT-2": tiny_hf.gpt2,
    "GPT-NeoX": _text("GPTNeoX", "ForCausalLM"),
    "Mixtral": tiny_hf.mixtral,
    "BERT": tiny_hf.bert,
    "RoBERTa": tiny_hf.roberta,
    "DistilBERT": lambda: transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(
            vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=40
        )
    ),
    "DeBERTa-v2": _text(
        "DebertaV2", "Model", relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"]
    ),
    "T5": tiny_hf.t5,
    "BART": _seq2seq,
    "ViT": tiny_hf.vit,
    "Swin": _swin,
    "CLIP": tiny_hf.clip,
    "Whisper": tiny_hf.whisper,
    "Wav2Vec2": tiny_hf.wav2vec2,
    "ResNet": tiny_hf.resnet,
    "ConvNeXt": _convnext,
    "DETR": _detr,
    "SegFormer": _segformer,
}


Sizes = Mapping[str, tuple[int, int, int]]
_AROUND_32: Sizes = {"height": (16, 32, 48), "width": (16, 32, 48)}
_AROUND_64: Sizes = {"height": (32, 64, 96), "width": (32, 64, 96)}
_TIMM_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}
_TIMM_SWIN = {"img_size": 32, "patch_size": 2, "window_size": 4}
_TIMM_SWIN |= {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4)}


@dataclasses.dataclass(frozen=True)
class Timm:
    """A model of timm: its ``create_model`` arguments, and the sizes that are to be dynamic besides batch."""

    architecture: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sizes: Sizes = dataclasses.field(default_factory=dict)


TIMM: dict[str, Timm] = {
    "ViT (timm)": Timm("vit_tiny_patch16_224", _TIMM_VIT),
    "ViT, any multiple of the patch (timm)": Timm(
        "vit_tiny_patch16_224", {**_TIMM_VIT, "dynamic_img_size": True}, _AROUND_32
    ),
    "ViT, any size (timm)": Timm(
        "vit_tiny_patch16_224",
        {**_TIMM_VIT, "dynamic_img_size": True, "dynamic_img_pad": True},
        _AROUND_32,
    ),
    "Swin (timm)": Timm("swin_tiny_patch4_window7_224", _TIMM_SWIN),
    "Swin, other sizes than its own (timm)": Timm("swin_tiny_patch4_window7_224", _TIMM_SWIN, _AROUND_32),
    "Swin, any multiple of the patch in height (timm)": Timm(
        "swin_tiny_patch4_window7_224",
        {
            **_TIMM_SWIN,
            "depths": (2,),
            "num_heads": (2,),
            "strict_img_size": False,
            "pretrained_cfg_overlay": {"input_size": (3, 32, 32)},
        },
        {"height": (16, 32, 48)},
    ),
    "ConvNeXt (timm)": Timm("convnext_atto", {"dims": (8, 16, 24, 32), "depths": (1, 1, 2, 1)}, _AROUND_64),
    "EfficientNet (timm)": Timm("test_efficientnet", sizes=_AROUND_64),
    "MobileNetV4 (timm)": Timm("mobilenetv4_conv_small_035", sizes=_AROUND_64),
    "MobileNetV4 hybrid (timm)": Timm("mobilenetv4_hybrid_medium_075", sizes=_AROUND_64),
}
"""Swin takes other sizes than its own only if it is made with ``strict_img_size=False``; torch.export needs a
minute for one axis of one stage, and many for height and width of two."""
