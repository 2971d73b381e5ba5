"""The models on which the gate is tried: tiny ones, architectures, trained networks and files of others."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tiny_hf
import tiny_models
import torch
from zoo import ZOO

from aotc.export.hf_folder import load_hf_folder
from aotc.export.onnx_source import OnnxSource
from aotc.export.source import Source
from aotc.sources import AnySource, open_source

ROOT = Path(__file__).resolve().parents[2]
Make = Callable[[], AnySource]


def _architecture(name: str, attention: str = "sdpa", **sizes: tuple[int, int, int]) -> Make:
    def make() -> AnySource:
        torch.manual_seed(0)
        folder = tiny_hf.save(ZOO[name](), Path(tempfile.mkdtemp()) / "model")
        source = load_hf_folder(folder, sizes)
        if attention == "eager":
            model = source.model

            def spelled() -> Any:
                module = model()
                module.set_attn_implementation("eager")
                return module

            return dataclasses.replace(source, model=spelled)
        return source

    return make


def _file(path: str, **sizes: tuple[int, int, int]) -> Make:
    def make() -> AnySource:
        source = open_source(ROOT / path)
        assert isinstance(source, Source)
        return dataclasses.replace(source, profiles=[sizes]) if sizes else source

    return make


def _package(package: str, path: str, sizes: Mapping[str, tuple[int, int, int]], **inputs: Any) -> Make:
    def make() -> AnySource:
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        return OnnxSource(Path(found.origin).parent / path, inputs or None, sizes)

    return make


def _lines() -> np.ndarray[Any, Any]:
    """Return smooth pictures of the size of a line of text, from -1 to 1."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(-1, 1, (3, 3, 6, 24)).astype(np.float32)
    return np.kron(coarse, np.ones((8, 8), np.float32))


def _chunk(rate: int, samples: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return one chunk of sound for each of two streams, with their states."""
    rng = np.random.default_rng(0)
    sound, state = rng.uniform(-1, 1, (2, samples)), rng.uniform(-1, 1, (2, 2, 128))
    return {
        "input": sound.astype(np.float32),
        "state": state.astype(np.float32),
        "sr": np.asarray(rate, np.int64),
    }


TINY: dict[str, Make] = {
    "mlp": tiny_models.mlp,
    "cnn": tiny_models.cnn,
    "decoder": tiny_models.decoder,
    "audio": tiny_models.audio,
    "recurrent": _file("tests/cases/034_b_lstm_directions.py", x_0=(1, 5, 9), x_1=(1, 2, 3)),
    "gru": _file("tests/cases/034_gru_reset_gate.py", x_0=(1, 5, 9), x_1=(1, 2, 3)),
}
SEQ = {"seq": (1, 12, 40)}
BOTH = {"seq": (1, 12, 40), "target_seq": (1, 7, 20)}
ARCHITECTURES: dict[str, Make] = {
    "BERT": _architecture("BERT", **SEQ),
    "BERT, eager attention": _architecture("BERT", "eager", **SEQ),
    "Llama": _architecture("Llama", **SEQ),
    "GPT-2": _architecture("GPT-2", **SEQ),
    "Gemma2": _architecture("Gemma2", **SEQ),
    "Mixtral (experts)": _architecture("Mixtral", **SEQ),
    "T5 (cross-attention)": _architecture("T5", **BOTH),
    "BART (cross-attention)": _architecture("BART", **BOTH),
    "Whisper (cross-attention)": _architecture("Whisper", target_seq=(1, 7, 20)),
    "ViT": _architecture("ViT"),
    "ResNet": _architecture("ResNet"),
    "Wav2Vec2": _architecture("Wav2Vec2", samples=(20, 800, 3000)),
}
TRAINED: dict[str, Make] = {
    "digits (trained)": _file("samples/digits/model.py"),
    "tiny-lm (trained)": _file("samples/tiny-lm/model.py"),
    "pitch (trained)": _file("samples/pitch/model.py"),
    "silero-vad (trained)": _file("samples/silero-vad/model.py"),
}
FILES: dict[str, Make] = {
    "silero_vad.onnx": _package("silero_vad", "data/silero_vad.onnx", {}, **_chunk(16000, 576)),
    "magika.onnx": _package("magika", "models/standard_v3_3/model.onnx", {}),
    "ocr cls.onnx": _package(
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x_0": (1, 3, 4), "x_2": (48, 48, 48), "x_3": (192, 192, 192)},
        x=_lines(),
    ),
}
MODELS = TINY | ARCHITECTURES | TRAINED | FILES
MORE: dict[str, list[dict[str, np.ndarray[Any, Any]]]] = {"silero_vad.onnx": [_chunk(8000, 288)]}
"""Inputs that nobody could draw, to show what a mutant does where the gate does not look."""
