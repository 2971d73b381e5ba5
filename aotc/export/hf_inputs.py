"""Example inputs of a transformers model: from forward's parameters, its configuration and processor files.

Derived from attributes that transformers uses for every architecture (``main_input_name``, ``vocab_size``,
``image_size``, ``num_mel_bins`` ...), never from the architecture's name.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError, UsageError

if TYPE_CHECKING:
    import torch

Sizes = tuple[int, int, int]
"""(min, opt, max) of a dim."""

_BATCH: Sizes = (1, 2, 8)
_LONGEST_TEXT, _USUAL_TEXT = 512, 128
_LONGEST_TARGET, _USUAL_TARGET = 64, 16
_USUAL_FRAMES, _LONGEST_FRAMES = 200, 1000
_USUAL_SAMPLES, _LONGEST_SAMPLES = 16_000, 80_000
_USUAL_IMAGE = 224
_FEATURES = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "feature_size")


@dataclasses.dataclass
class HfInputs:
    """Inputs by parameter name, the names of their dynamic axes, and the profile of those dims."""

    inputs: dict[str, Any] = dataclasses.field(default_factory=dict)
    dynamic_shapes: dict[str, dict[int, str]] = dataclasses.field(default_factory=dict)
    profile: dict[str, Sizes] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)


def derive_inputs(
    model: Any, processor: Mapping[str, Any], tokenizer: Mapping[str, Any], wanted: Mapping[str, Sizes]
) -> HfInputs:
    """Return example inputs of ``model`` with a dynamic batch and length.

    Args:
        model: A ``PreTrainedModel``.
        processor: ``preprocessor_config.json``, empty if there is none.
        tokenizer: ``tokenizer_config.json``, empty if there is none.
        wanted: (min, opt, max) by dim name, instead of the default or of a fixed image size.

    Raises:
        RefusedError: The model takes something that cannot be derived.
        UsageError: ``wanted`` names a dim that no input has.
    """
    build = _Builder(model, processor, tokenizer, wanted)
    main = model.main_input_name
    if main in build.parameters and (add := _MAIN.get(main)) is not None:
        add(build)
    if "pixel_values" in build.parameters and main == "input_ids":
        _add_image_beside_text(build)
    if model.config.is_encoder_decoder and "decoder_input_ids" in build.parameters:
        _add_target(build)
    build.require_all(main)
    if unknown := sorted(wanted.keys() - build.found.profile.keys()):
        known = ", ".join([*build.found.profile, *build.static]) or "none"
        raise UsageError(f"no input has the dim '{unknown[0]}'", slug="dim", hint=f"dims: {known}")
    return build.found


class _Builder:
    """Collects inputs; values are drawn with a fixed seed."""

    def __init__(
        self,
        model: Any,
        processor: Mapping[str, Any],
        tokenizer: Mapping[str, Any],
        wanted: Mapping[str, Sizes],
    ) -> None:
        import torch

        self.model = model
        self.config = model.config
        self.processor = processor
        self.tokenizer = tokenizer
        self.wanted = wanted
        self.parameters = inspect.signature(model.forward).parameters
        self.found = HfInputs()
        self.static: list[str] = []
        self.generator = torch.Generator().manual_seed(0)

    def size(self, name: str, default: Sizes) -> int:
        """Return the example's size of the dynamic dim ``name``."""
        return self.found.profile.setdefault(name, self.wanted.get(name, default))[1]

    def fixed(self, name: str, size: int) -> int:
        """Return the size of a dim that is static unless the user gave sizes for it."""
        if name in self.wanted:
            return self.size(name, self.wanted[name])
        self.static.append(name)
        return size

    def add(self, name: str, tensor: torch.Tensor, *axes: str) -> None:
        """Add an input whose axes have these names; those without a profile are static."""
        dynamic = {index: axis for index, axis in enumerate(axes) if axis in self.found.profile}
        self.found.inputs[name] = tensor
        self.found.dynamic_shapes[name] = dynamic

    def integers(self, limit: int, *shape: int) -> torch.Tensor:
        """Return int64 values from 0 to ``limit`` - 1."""
        import torch

        return torch.randint(0, limit, shape, generator=self.generator)

    def floats(self, *shape: int) -> torch.Tensor:
        """Return normal float32 values."""
        import torch

        return torch.randn(shape, generator=self.generator)

    def mask(self, *shape: int) -> torch.Tensor:
        """Return ones (int64); the second row ends in padding."""
        import torch

        mask = torch.ones(shape, dtype=torch.int64)
        mask[1:2, ..., shape[-1] - shape[-1] // 4 :] = 0
        return mask

    def require_all(self, main: str) -> None:
        """Refuse a model that needs more than what was derived."""
        needed = [
            name
            for name, parameter in self.parameters.items()
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        missing = [name for name in dict.fromkeys([main, *needed]) if name not in self.found.inputs]
        if missing:
            raise RefusedError(
                f"no example of the input '{missing[0]}' of {type(self.model).__name__} can be derived",
                slug="hf-inputs",
                hint="write a source file: model() loads this folder, inputs() returns what forward takes",
            )


def _add_text(build: _Builder) -> None:
    config, parameters = build.config.get_text_config(), build.parameters
    longest = min(_LONGEST_TEXT, _positions(build, config))
    batch = build.size("batch", _BATCH)
    seq = build.size("seq", (1, min(_USUAL_TEXT, longest), longest))
    build.add("input_ids", build.integers(_vocabulary(config), batch, seq), "batch", "seq")
    if "attention_mask" in parameters:
        build.add("attention_mask", build.mask(batch, seq), "batch", "seq")
    types = getattr(config, "type_vocab_size", None) or 0
    names = build.tokenizer.get("model_input_names")
    taken = "token_type_ids" in names if names else types > 1
    if "token_type_ids" in parameters and taken and types:
        build.add("token_type_ids", build.integers(types, batch, seq), "batch", "seq")


def _vocabulary(config: Any) -> int:
    size = getattr(config, "vocab_size", None)
    if not isinstance(size, int):
        raise RefusedError(
            "config.json has no vocab_size, so no example of the input 'input_ids' can be derived",
            slug="hf-inputs",
            hint="write a source file: model() loads this folder, inputs() returns what forward takes",
        )
    return size


def _positions(build: _Builder, config: Any) -> int:
    """Return how long a text may be.

    A position table with a padding entry counts positions from behind it (RoBERTa): that many are lost.
    """
    from torch import nn

    longest = getattr(config, "max_position_embeddings", None)
    longest = longest if isinstance(longest, int) and longest > 0 else _LONGEST_TEXT
    tables = [m for m in build.model.modules() if isinstance(m, nn.Embedding) and m.num_embeddings == longest]
    lost = max((m.padding_idx + 1 for m in tables if m.padding_idx is not None), default=0)
    limit = build.tokenizer.get("model_max_length")
    told = int(limit) if isinstance(limit, int | float) and limit > 0 else longest
    return min(longest - lost, told)


def _add_target(build: _Builder) -> None:
    config = build.config.get_text_config(decoder=True)
    longest = getattr(config, "max_target_positions", None) or _positions(build, config)
    longest = min(_LONGEST_TARGET, longest)
    batch = build.size("batch", _BATCH)
    seq = build.size("target_seq", (1, min(_USUAL_TARGET, longest), longest))
    ids = build.integers(_vocabulary(config), batch, seq)
    build.add("decoder_input_ids", ids, "batch", "target_seq")
    build.found.notes.append(
        "encoder and decoder are one graph: the decoder takes decoder_input_ids, and there is no cache"
    )


def _add_image(build: _Builder, batch_dim: str = "batch") -> None:
    config = getattr(build.config, "vision_config", None) or build.config
    height, width = _image_size(build, config)
    batch = build.size(batch_dim, _BATCH)
    sizes = build.fixed("height", height), build.fixed("width", width)
    channels = getattr(config, "num_channels", None) or 3
    frames = getattr(config, "num_frames", None)
    if frames is not None and "video" in build.model.input_modalities:
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


def _image_size(build: _Builder, config: Any) -> tuple[int, int]:
    crop, size = build.processor.get("crop_size"), build.processor.get("size")
    cropped = crop is not None and build.processor.get("do_center_crop", True)
    for found in (getattr(config, "image_size", None), crop if cropped else size):
        if isinstance(found, Mapping):
            edge = found.get("shortest_edge")
            found = (found.get("height", edge), found.get("width", edge))
        if isinstance(found, int):
            return found, found
        if isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(n, int) for n in found):
            return found[0], found[1]
    return _USUAL_IMAGE, _USUAL_IMAGE


def _add_image_beside_text(build: _Builder) -> None:
    """Two encoders side by side take any number of texts and images; otherwise each text has its image."""
    for token in ("image_token_id", "image_token_index"):
        if getattr(build.config, token, None) is not None:
            raise RefusedError(
                f"{type(build.model).__name__} puts image features at the image tokens of a text, and no "
                "example of both together can be derived",
                slug="hf-inputs",
                hint="write a source file: model() loads this folder, inputs() returns what forward takes",
            )
    separate = all(hasattr(build.model, f"get_{kind}_features") for kind in ("text", "image"))
    _add_image(build, "image_batch" if separate else "batch")


def _add_features(build: _Builder) -> None:
    """Spectrograms: channels first over a fixed number of frames (Whisper), or frames first."""
    config, processor = build.config, build.processor
    batch = build.size("batch", _BATCH)
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


def _add_values(build: _Builder) -> None:
    """Waveforms, or a spectrogram of fixed length where the configuration has one (AST)."""
    config = build.config
    batch = build.size("batch", _BATCH)
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


def _add_audio_mask(build: _Builder, batch: int, length: int, dim: str) -> None:
    """Some models were trained without a mask: the processor says so, or else how features are normalised."""
    usual = getattr(build.config, "feat_extract_norm", "layer") == "layer"
    if "attention_mask" in build.parameters and build.processor.get("return_attention_mask", usual):
        build.add("attention_mask", build.mask(batch, length), "batch", dim)


def _shortest_wave(config: Any) -> int:
    """Return how many samples give one frame: the receptive field of the convolutions."""
    field = 1
    layers = zip(getattr(config, "conv_kernel", ()), getattr(config, "conv_stride", ()), strict=False)
    for kernel, stride in reversed(list(layers)):
        field = (field - 1) * stride + kernel
    return field


_MAIN = {
    "input_ids": _add_text,
    "pixel_values": _add_image,
    "input_features": _add_features,
    "input_values": _add_values,
}
