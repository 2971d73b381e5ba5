"""Example inputs of a transformers model: from forward's parameters, its configuration and processor files.

Derived from attributes that transformers uses for every architecture (``main_input_name``, ``vocab_size``,
``image_size``, ``num_mel_bins`` ...), never from the architecture's name.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from aotc.errors import UsageError
from aotc.export.hf_example import BATCH, Builder, HfInputs, underivable
from aotc.export.hf_media import add_features, add_image, add_image_beside_text, add_values
from aotc.export.hf_weights import first_line
from aotc.export.refusals import traceback_line
from aotc.export.source import Sizes

_LONGEST_TEXT, _USUAL_TEXT = 512, 128
_LONGEST_TARGET, _USUAL_TARGET = 64, 16


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
    build = Builder(model, processor, tokenizer, wanted)
    main = model.main_input_name
    if main == "input_ids":
        _refuse_mixed_tokens(build)
    if main in build.parameters and (add := _MAIN.get(main)) is not None:
        add(build)
    if "pixel_values" in build.parameters and main == "input_ids":
        add_image_beside_text(build)
    if model.config.is_encoder_decoder and "decoder_input_ids" in build.parameters:
        _add_target(build)
    build.require_all(main)
    if unknown := sorted(wanted.keys() - build.found.profile.keys()):
        known = ", ".join([*build.found.profile, *build.static]) or "none"
        raise UsageError(f"no input has the dim '{unknown[0]}'", slug="dim", hint=f"dims: {known}")
    return build.found


def confirm_inputs(model: Any, inputs: Mapping[str, Any]) -> None:
    """Run ``model`` once on what was derived.

    Raises:
        RefusedError: It does not take that.
    """
    import torch

    try:
        with torch.inference_mode():
            model(**{name: tensor.clone() for name, tensor in inputs.items()})
    except Exception as error:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in inputs.items())
        raise underivable(
            f"{type(model).__name__} does not take the inputs that were derived for it ({shapes}): "
            f"{type(error).__name__}: {first_line(error)}",
            traceback_line(error),
        ) from error


def _refuse_mixed_tokens(build: Builder) -> None:
    """Refuse a model that puts images or sounds at places in the text: the two must fit each other."""
    for kind, end in itertools.product(("image", "video", "audio"), ("id", "index")):
        if getattr(build.config, f"{kind}_token_{end}", None) is not None:
            raise underivable(
                f"{type(build.model).__name__} puts {kind} features at the {kind} tokens of a text, and no "
                "example of both together can be derived"
            )


def _add_text(build: Builder) -> None:
    config, parameters = build.config.get_text_config(), build.parameters
    longest = min(_LONGEST_TEXT, _positions(build, config))
    batch = build.size("batch", BATCH)
    seq = build.size("seq", (1, min(_USUAL_TEXT, longest), longest))
    build.add("input_ids", build.integers(_vocabulary(config), batch, seq), "batch", "seq")
    if "attention_mask" in parameters:
        build.add("attention_mask", build.mask(batch, seq), "batch", "seq")
    types = getattr(config, "type_vocab_size", None) or 0
    names = build.tokenizer.get("model_input_names")
    taken = "token_type_ids" in names if names else types > 1
    if "token_type_ids" in parameters and taken and types:
        build.add("token_type_ids", build.integers(types, batch, seq), "batch", "seq")
    if "bbox" in parameters and (limit := getattr(config, "max_2d_position_embeddings", None)) is not None:
        # (left, top, right, bottom) of each token: sorted, because models look up widths and heights.
        corners = build.integers(limit, batch, seq, 2, 2).sort(dim=2).values
        build.add("bbox", corners.flatten(2), "batch", "seq")


def _vocabulary(config: Any) -> int:
    size = getattr(config, "vocab_size", None)
    if not isinstance(size, int):
        raise underivable(
            "config.json has no vocab_size, so no example of the input 'input_ids' can be derived"
        )
    return size


def _positions(build: Builder, config: Any) -> int:
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


def _add_target(build: Builder) -> None:
    config = build.config.get_text_config(decoder=True)
    longest = getattr(config, "max_target_positions", None) or _positions(build, config)
    longest = min(_LONGEST_TARGET, longest)
    batch = build.size("batch", BATCH)
    seq = build.size("target_seq", (1, min(_USUAL_TARGET, longest), longest))
    ids = build.integers(_vocabulary(config), batch, seq)
    build.add("decoder_input_ids", ids, "batch", "target_seq")
    build.found.notes.append(
        "encoder and decoder are one graph: the decoder takes decoder_input_ids, and there is no cache"
    )


_MAIN = {
    "input_ids": _add_text,
    "pixel_values": add_image,
    "input_features": add_features,
    "input_values": add_values,
}
