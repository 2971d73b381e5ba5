"""A timm folder as a source: config.json with timm's ``architecture``, and model.safetensors."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotc import optional
from aotc.errors import AotcError, MissingError, RefusedError, UsageError
from aotc.export.hf_assets import find_assets, read_json
from aotc.export.hf_example import BATCH
from aotc.export.hf_inputs import confirm_inputs
from aotc.export.hf_weights import first_line, listed, stored_precision
from aotc.export.source import Sizes, Source, as_given

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_AXES = ("batch", "channels", "height", "width")


def is_timm_folder(folder: Path) -> bool:
    """Return whether config.json is timm's; one that names a class of transformers is not."""
    settings = read_json(folder / _CONFIG)
    return "architecture" in settings and not settings.keys() & {"architectures", "model_type"}


def load_timm_folder(folder: Path, sizes: Mapping[str, Sizes] | None = None) -> Source:
    """Return the source of a folder in the format of timm's ``save_for_hf``. Nothing is downloaded.

    Args:
        folder: Holds config.json and model.safetensors.
        sizes: (min, opt, max) by dim name: of ``batch``, or to make ``height`` and ``width`` dynamic.

    Raises:
        UsageError: ``sizes`` names another dim.
        RefusedError: timm cannot make the model, weights are missing, left over or of another shape, or the
            model does not take an image of the size in config.json.
        MissingError: timm is not installed, or cannot be imported.
    """
    wanted = sizes or {}
    if unknown := sorted(wanted.keys() - {"batch", "height", "width"}):
        raise UsageError(
            f"no input has the dim '{unknown[0]}'", slug="dim", hint="dims: batch, height, width"
        )
    timm = _import_timm()
    loaded = [_load(timm, folder)]
    profile = {"batch": BATCH, **wanted}
    inputs = _example(loaded[0], profile)
    confirm_inputs(loaded[0], inputs)
    axes = {axis: name for axis, name in enumerate(_AXES) if name in profile}
    assets, left = find_assets(folder)
    return Source(
        name=folder.resolve().name,
        # Given away, so that its weights are freed when the caller is done with it.
        model=lambda: loaded.pop() if loaded else _load(timm, folder),
        inputs=inputs,
        dynamic_shapes=dict.fromkeys(inputs, axes),
        profiles=[profile],
        path=as_given(folder, wanted),
        assets=assets,
        notes=(*stored_precision(folder), *left),
    )


def _import_timm() -> Any:
    try:
        return optional.require("timm")
    except AotcError:
        raise
    except Exception as error:  # timm imports torchvision, which must be of the same build as torch
        raise MissingError(
            f"timm cannot be imported: {type(error).__name__}: {first_line(error)}",
            hint=optional.how_to_install("timm"),
        ) from error


def _load(timm: Any, folder: Path) -> Any:
    """Make the model as config.json says and load its weights in float32, every one of them."""
    from safetensors.torch import load_file

    if not (folder / _WEIGHTS).is_file():
        raise RefusedError(
            f"the folder {folder} has no {_WEIGHTS}",
            slug="timm-weights",
            hint="save the model with timm.models.save_for_hf(model, folder, safe_serialization=True)",
        )
    try:
        model = timm.create_model(f"local-dir:{folder}", pretrained=False)
        weights = load_file(folder / _WEIGHTS)
    except Exception as error:
        raise RefusedError(
            f"timm cannot load {folder.name}: {type(error).__name__}: {first_line(error)}",
            slug="timm-load",
            hint="save it again with timm.models.save_for_hf, or upgrade timm if it is newer than this one",
        ) from error
    _refuse_other_weights(model, weights)
    model.load_state_dict(weights)
    _refuse_another_pooling(model, read_json(folder / _CONFIG).get("global_pool"))
    return model.eval()


def _refuse_other_weights(model: Any, weights: Mapping[str, Any]) -> None:
    own = model.state_dict()
    faults = {
        "lack": own.keys() - weights.keys(),
        "hold more than the model takes:": weights.keys() - own.keys(),
        "have another shape than the model's:": {
            name for name in own.keys() & weights.keys() if own[name].shape != weights[name].shape
        },
    }
    for what, names in faults.items():
        if names:
            raise RefusedError(
                f"the weights {what} {listed(sorted(names))}",
                slug="timm-weights",
                where=f"{type(model).__name__}, {_WEIGHTS}",
                hint=f"correct architecture, model_args or num_classes in {_CONFIG}",
            )


def _refuse_another_pooling(model: Any, told: Any) -> None:
    """No weight tells poolings apart, and timm makes the one in ``model_args``: ``global_pool`` is a note."""
    places = (getattr(model, "head", None), model)
    pools = [getattr(place, "global_pool", None) for place in places]
    kinds = [getattr(pool, "pool_type", pool) for pool in pools]
    made = next((kind for kind in kinds if isinstance(kind, str)), told)
    if told and made != told:
        raise RefusedError(
            f"global_pool is '{told}' in config.json, and timm makes this model with '{made}'",
            slug="timm-load",
            where=type(model).__name__,
            hint=f'write "model_args": {{"global_pool": "{told}"}} into config.json, or correct global_pool',
        )


def _example(model: Any, profile: Mapping[str, Sizes]) -> dict[str, Any]:
    """Return an image (float32, [batch, channels, height, width]) of the size that the weights are for."""
    import torch

    usual = dict(zip(_AXES[1:], model.pretrained_cfg["input_size"], strict=True))
    shape = [profile[name][1] if name in profile else usual[name] for name in _AXES]
    name = next(iter(inspect.signature(model.forward).parameters))
    return {name: torch.randn(shape, generator=torch.Generator().manual_seed(0))}
