"""A Hugging Face folder as a source: config.json and weights on disk. Nothing is ever downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotc import optional
from aotc.errors import RefusedError, UsageError
from aotc.export.hf_adapter import ADAPTER, base_folder, merge
from aotc.export.hf_assets import find_assets, read_json
from aotc.export.hf_inputs import confirm_inputs, derive_inputs
from aotc.export.hf_weights import OFFLINE, as_refusal, load_model, quiet, stored_precision
from aotc.export.source import Sizes, Source, as_given

CONFIG = "config.json"
_STEPS = "modules.json"
_PROCESSOR, _TOKENIZER = "preprocessor_config.json", "tokenizer_config.json"


def load_hf_folder(
    folder: Path, sizes: Mapping[str, Sizes] | None = None, *, trust_remote_code: bool = False
) -> Source:
    """Return the source of a folder that ``save_pretrained`` wrote, or that was downloaded from a hub.

    Args:
        folder: Holds config.json and the weights; or an adapter, which is merged into its base model.
        sizes: (min, opt, max) by dim name instead of the default profile.
        trust_remote_code: Run the Python code that the folder brings, if its config.json names some.

    Raises:
        UsageError: Not such a folder, or ``sizes`` names a dim that no input has.
        RefusedError: An unknown class, code of the folder's own, weights that are missing or left over,
            inputs that cannot be derived.
        MissingError: transformers, or a package that this model needs, is not installed.
    """
    transformers = optional.require("transformers")
    is_adapter = (folder / ADAPTER).is_file()
    base = base_folder(folder) if is_adapter else folder
    loader, notes = _loader(transformers, base, _settings(base), trust_remote_code)

    def load() -> Any:
        with quiet(transformers):
            model = load_model(loader, base, trust_remote_code)
            return merge(model, folder) if is_adapter else model

    loaded = [load()]
    assets, left = find_assets(folder, base)
    files = {path.name: read_json(path) for path in assets if path.name in (_PROCESSOR, _TOKENIZER)}
    derived = derive_inputs(loaded[0], files.get(_PROCESSOR, {}), files.get(_TOKENIZER, {}), sizes or {})
    confirm_inputs(loaded[0], derived.inputs)
    return Source(
        name=folder.resolve().name,
        # Given away, so that its weights are freed when the caller is done with it.
        model=lambda: loaded.pop() if loaded else load(),
        inputs=derived.inputs,
        dynamic_shapes=derived.dynamic_shapes,
        profiles=[derived.profile],
        path=as_given(folder, sizes or {}, *(["--trust-remote-code"] if trust_remote_code else [])),
        assets=assets,
        notes=(*notes, *stored_precision(base), *derived.notes, *_further_steps(base), *left),
    )


def _further_steps(folder: Path) -> tuple[str, ...]:
    """Say what a sentence-transformers folder does after the model, which is described in other files."""
    if not (folder / _STEPS).is_file():
        return ()
    return (f"{_STEPS} names steps around the model (pooling, normalising) that are not in the engine",)


def _settings(folder: Path) -> dict[str, Any]:
    """Read config.json and refuse what no class of transformers could make right."""
    if not (folder / CONFIG).is_file():
        raise UsageError(
            f"the folder {folder} has no {CONFIG}",
            slug="source",
            hint="give a Python file, or a folder with config.json and weights",
        )
    settings = read_json(folder / CONFIG)
    if (found := settings.get("quantization_config")) is not None:
        method = found.get("quant_method") if isinstance(found, dict) else found
        raise RefusedError(
            f"the weights are quantised ({method})",
            slug="hf-quantised",
            where=f"quantization_config in {CONFIG}",
            hint="give the folder of the model before it was quantised",
        )
    return settings


def _loader(
    transformers: Any, folder: Path, settings: Mapping[str, Any], trust_remote_code: bool
) -> tuple[Any, tuple[str, ...]]:
    """Return the class to load with, and what the user should know about that choice."""
    named = settings.get("architectures") or [None]
    name = named[0] if isinstance(named, list) else named
    if remote := settings.get("auto_map"):
        return _remote_class(folder, remote, name, trust_remote_code), ()
    if name is None:
        kind = settings.get("model_type", "none")
        note = f"{CONFIG} names no architecture: the bare model of the type '{kind}' is built"
        return transformers.AutoModel, (note,)
    found = getattr(transformers, str(name), None)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise RefusedError(
            f"transformers {transformers.__version__} has no model class '{name}'",
            slug="hf-architecture",
            where=f"architectures in {CONFIG}",
            hint="upgrade transformers if the model is newer than it",
        )
    return found, ()


def _remote_class(folder: Path, remote: Any, name: Any, trusted: bool) -> Any:
    """Return the class that the folder's own code defines; only with the user's word for it."""
    if not trusted:
        raise RefusedError(
            "the folder brings Python code of its own, which would be run",
            slug="hf-remote-code",
            where=f"auto_map in {CONFIG}",
            hint="read it, then give --trust-remote-code; or remove auto_map to use transformers' own class",
        )
    references = [str(each) for each in remote.values()] if isinstance(remote, dict) else []
    wanted = next((each for each in references if each.rpartition(".")[2] == name), None)
    if wanted is None or "--" in wanted:
        raise RefusedError(
            f"no code of this folder defines the class '{name}'",
            slug="hf-remote-code",
            where=f"auto_map in {CONFIG}",
            hint="copy the Python files into the folder and name the class as MODULE.CLASS in auto_map",
        )
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    with as_refusal(f"the code of {folder.name}"):
        return get_class_from_dynamic_module(wanted, str(folder), **OFFLINE)
