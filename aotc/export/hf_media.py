"""Example images, videos and sounds of a transformers model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotc.export.hf_example import BATCH, Builder

_USUAL_FRAMES, _LONGEST_FRAMES = 200, 1000
_USUAL_SAMPLES, _LONGEST_SAMPLES = 16_000, 80_000
_USUAL_IMAGE = 224
_FEATURES = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "feature_size")


def add_image(build: Builder, batch_dim: str = "batch") -> None:
    """Images of the size in the configuration, else of what the processor makes of them; or videos."""
    parts = (getattr(build.config, name, None) for name in ("vision_config", "encoder"))
    config = next((part for part in parts if part is not None), build.config)
    height, width = _image_size(build, config)
    batch = build.size(batch_dim, BATCH)
    sizes = build.fixed("height", height), build.fixed("width", width)
    channels = getattr(config, "num_channels", None) or 3
    frames = getattr(config, "num_frames", None)
    if frames is not None:
        pixels = build.floats(batch, frames, channels, *sizes)
        build.add("pixel_values", pixels, batch_dim, "frames", "channels", "height", "width")
    else:
        pixels = build.floats(batch, channels, *sizes)
        build.add("pixel_values", pixels, batch_dim, "channels", "height", "width")
    if "pixel_mask" in build.parameters:
        build.add("pixel_mask", build.mask(batch, *sizes), batch_dim, "height", "width")
    if build.static:
        build.found.notes.append(
            f"images have {sizes[0]} x {sizes[1]} pixels; "
            "--dim height=MIN:OPT:MAX --dim width=MIN:OPT:MAX makes that dynamic if the model allows it"
        )


def _image_size(build: Builder, config: Any) -> tuple[int, int]:
    crop, size = build.processor.get("crop_size"), build.processor.get("size")
    cropped = crop is not None and build.processor.get("do_center_crop", True)
    told = [getattr(config, name, None) for name in ("image_size", "input_size")]
    for found in (*told, crop if cropped else size):
        if isinstance(found, Mapping):
            edge = found.get("shortest_edge")
            found = (found.get("height", edge), found.get("width", edge))
        if isinstance(found, int):
            return found, found
        if isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(n, int) for n in found):
            return found[0], found[1]
    return _USUAL_IMAGE, _USUAL_IMAGE


def add_image_beside_text(build: Builder) -> None:
    """Two encoders side by side take any number of texts and images; otherwise each text has its image."""
    separate = all(hasattr(build.model, f"get_{kind}_features") for kind in ("text", "image"))
    add_image(build, "image_batch" if separate else "batch")


def add_features(build: Builder) -> None:
    """Spectrograms: channels first over a fixed number of frames (Whisper), or frames first."""
    config, processor = build.config, build.processor
    batch = build.size("batch", BATCH)
    positions, mels = getattr(config, "max_source_positions", None), getattr(config, "num_mel_bins", None)
    if mels is not None and positions is not None:
        build.add("input_features", build.floats(batch, mels, 2 * positions), "batch")
        return
    counts = [getattr(config, name, None) or processor.get(name) for name in _FEATURES]
    features = next((count for count in counts if isinstance(count, int)), None)
    if features is None:
        return
    frames = build.size("frames", (1, _USUAL_FRAMES, _LONGEST_FRAMES))
    build.add("input_features", build.floats(batch, frames, features), "batch", "frames")
    _add_audio_mask(build, batch, frames, "frames")


def add_values(build: Builder) -> None:
    """Waveforms, or a spectrogram of fixed length where the configuration has one (AST)."""
    config = build.config
    batch = build.size("batch", BATCH)
    mels, length = getattr(config, "num_mel_bins", None), getattr(config, "max_length", None)
    if mels is not None and length is not None:
        build.add("input_values", build.floats(batch, length, mels), "batch")
        return
    samples = build.size("samples", (_shortest_wave(config), _USUAL_SAMPLES, _LONGEST_SAMPLES))
    channels = getattr(config, "audio_channels", None)
    if channels is not None:
        build.add("input_values", build.floats(batch, channels, samples), "batch", "channels", "samples")
        return
    build.add("input_values", build.floats(batch, samples), "batch", "samples")
    _add_audio_mask(build, batch, samples, "samples")


def _add_audio_mask(build: Builder, batch: int, length: int, dim: str) -> None:
    """Some models were trained without a mask: the processor says so, or else how features are normalised."""
    usual = getattr(build.config, "feat_extract_norm", "layer") == "layer"
    if "attention_mask" in build.parameters and build.processor.get("return_attention_mask", usual):
        build.add("attention_mask", build.mask(batch, length), "batch", dim)


def _shortest_wave(config: Any) -> int:
    """Return how many samples give one frame: the receptive field of the convolutions, where it is told."""
    kernels, strides = getattr(config, "conv_kernel", None), getattr(config, "conv_stride", None)
    if not isinstance(kernels, list | tuple) or not isinstance(strides, list | tuple):
        return _USUAL_SAMPLES // 4
    field = 1
    layers = zip(kernels, strides, strict=True)
    for kernel, stride in reversed(list(layers)):
        field = (field - 1) * stride + kernel
    return field
