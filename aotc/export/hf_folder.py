"""A Hugging Face folder as a source: config.json and weights on disk. Nothing is ever downloaded."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc import optional
from aotc.errors import AotcError, MissingError, RefusedError, UsageError
from aotc.export.hf_assets import find_assets
from aotc.export.hf_inputs import Sizes, derive_inputs
from aotc.export.source import Source

if TYPE_CHECKING:
    from torch import nn

CONFIG = "config.json"
_ADAPTER = "adapter_config.json"
_FILE = {"local_files_only": True}
_HALF = {"F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8", "F8_E5M2": "float8"}
_NAMED = 3
"""How many weights a refusal names."""


def load_hf_folder(
    folder: Path, sizes: Mapping[str, Sizes] | None = None, *, trust_remote_code: bool = False
) -> Source:
    """Return the source of a folder that ``save_pretrained`` wrote, or that was downloaded from a hub.

    Args:
        folder: Holds config.json and the weights.
        sizes: (min, opt, max) by dim name instead of the default profile.
        trust_remote_code: Run the Python code that the folder brings, if its config.json names some.

    Raises:
        UsageError: Not such a folder, or ``sizes`` names a dim that no input has.
        RefusedError: An unknown class, code of the folder's own, weights that are missing or left over,
            inputs that cannot be derived.
        MissingError: transformers, or a package that this model needs, is not installed.
    """
    settings = _settings(folder)
    transformers = optional.require("transformers")
    with _quiet(transformers):
        loader, notes = _loader(transformers, folder, settings, trust_remote_code)
        model: Any = _load(loader, folder, trust_remote_code)
    derived = derive_inputs(
        model,
        _json(folder / "preprocessor_config.json"),
        _json(folder / "tokenizer_config.json"),
        sizes or {},
    )
    assets, left = find_assets(folder)
    loaded = [model]
    del model

    def hand_over() -> nn.Module:
        """Give the module away, so that its weights are freed when the caller is done with it."""
        if loaded:
            return loaded.pop()  # type: ignore[no-any-return]
        with _quiet(transformers):
            return _load(loader, folder, trust_remote_code)  # type: ignore[no-any-return]

    return Source(
        name=folder.resolve().name,
        model=hand_over,
        inputs=derived.inputs,
        dynamic_shapes=derived.dynamic_shapes,
        profiles=[derived.profile],
        path=_as_given(folder, sizes or {}, trust_remote_code),
        assets=assets,
        notes=(*notes, *_stored_precision(folder), *derived.notes, *left),
    )


def _as_given(folder: Path, sizes: Mapping[str, Sizes], trust_remote_code: bool) -> str:
    """Return the folder with the options that another command needs to read it in the same way."""
    given = [f"--dim {name}={':'.join(map(str, size))}" for name, size in sizes.items()]
    return " ".join([str(folder), *given, *(["--trust-remote-code"] if trust_remote_code else [])])


def _settings(folder: Path) -> dict[str, Any]:
    """Read config.json and refuse what no class of transformers could make right."""
    if (folder / _ADAPTER).is_file():
        raise RefusedError(
            f"{folder} holds an adapter, not a whole model",
            slug="hf-adapter",
            where=_ADAPTER,
            hint="merge it first: PeftModel.from_pretrained(...).merge_and_unload().save_pretrained(FOLDER)",
        )
    if not (folder / CONFIG).is_file():
        raise UsageError(
            f"the folder {folder} has no {CONFIG}",
            slug="source",
            hint="give a Python file, or a folder with config.json and weights",
        )
    settings = _json(folder / CONFIG)
    if (found := settings.get("quantization_config")) is not None:
        method = found.get("quant_method") if isinstance(found, dict) else found
        raise RefusedError(
            f"the weights are quantised ({method})",
            slug="hf-quantised",
            where=f"quantization_config in {CONFIG}",
            hint="give the folder of the model before it was quantised",
        )
    return settings


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path.name} is not valid JSON: {error}", slug="source", where=str(path)) from error
    if not isinstance(content, dict):
        raise UsageError(f"{path.name} must hold an object", slug="source", where=str(path))
    return content


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

    with _as_refusal(f"the code of {folder.name}"):
        return get_class_from_dynamic_module(wanted, str(folder), **_FILE)


def _load(loader: Any, folder: Path, trust_remote_code: bool) -> Any:
    """Load config and weights in float32; nothing is left at random values, and nothing is left out."""
    import torch
    from transformers import AutoConfig

    with _as_refusal(getattr(loader, "__name__", folder.name)):
        kind = AutoConfig if trust_remote_code else getattr(loader, "config_class", None) or AutoConfig
        extra = {"trust_remote_code": True} if trust_remote_code else {}
        config = kind.from_pretrained(folder, **_FILE, **extra)
        config.output_attentions = False
        # The class's own choice (sdpa where it has it): config.json may name a kernel to download.
        config._attn_implementation = None
        _without_cache(config)
        model, info = loader.from_pretrained(
            folder, config=config, dtype=torch.float32, output_loading_info=True, **_FILE, **extra
        )
    _refuse_other_weights(type(model).__name__, info)
    return model.eval()


def _without_cache(config: Any) -> None:
    """A cache is no output of a single call; composite models have one setting for each part."""
    config.use_cache = False
    for name in getattr(config, "sub_configs", {}):
        if (part := getattr(config, name, None)) is not None:
            _without_cache(part)


def _refuse_other_weights(name: str, info: Mapping[str, Any]) -> None:
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    if missing:
        raise RefusedError(
            f"the weights lack {_listed(missing)}, which transformers would set to random values",
            slug="hf-weights",
            where=name,
            hint="save the whole model again, or name the class it was saved from in config.json",
        )
    if unexpected:
        raise RefusedError(
            f"{name} has no place for {_listed(unexpected)} of the weights",
            slug="hf-weights",
            where=name,
            hint="name the class it was saved from under architectures in config.json",
        )
    if info["error_msgs"]:
        raise RefusedError(f"the weights do not fit {name}: {info['error_msgs'][0]}", slug="hf-weights")


def _listed(names: list[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _stored_precision(folder: Path) -> tuple[str, ...]:
    """Say that weights stored in half precision are computed with in float32."""
    from safetensors import safe_open

    found = set()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            found |= {_HALF.get(file.get_slice(name).get_dtype()) for name in file.keys()}  # noqa: SIM118
    names = ", ".join(sorted(name for name in found if name))
    return (f"weights stored in {names} are compared and compiled in float32",) if names else ()


@contextlib.contextmanager
def _as_refusal(what: str) -> Iterator[None]:
    """Turn what transformers raises for a folder that it cannot load into an error of ours."""
    try:
        yield
    except AotcError:
        raise
    except ImportError as error:
        raise MissingError(
            f"{what} needs a package that is not installed: {_first_line(error)}", hint="install that package"
        ) from error
    except Exception as error:
        raise RefusedError(
            f"transformers cannot load {what}: {type(error).__name__}: {_first_line(error)}",
            slug="hf-load",
            hint="weights must be model.safetensors, or a pytorch_model.bin that torch.load reads safely",
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Drop progress bars and log lines of transformers; what matters is refused or noted."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
