"""The weights of a Hugging Face folder, in float32: nothing is left at random values, nothing is left out."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aotc.errors import AotcError, MissingError, RefusedError

OFFLINE = {"local_files_only": True}
_HALF = {"F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8", "F8_E5M2": "float8"}
_NAMED = 3
"""How many weights a refusal names."""


def load_model(loader: Any, folder: Path, trust_remote_code: bool) -> Any:
    """Load config and weights in float32; nothing is left at random values, and nothing is left out."""
    import torch
    from transformers import AutoConfig

    with as_refusal(getattr(loader, "__name__", folder.name)):
        kind = AutoConfig if trust_remote_code else getattr(loader, "config_class", None) or AutoConfig
        extra = {"trust_remote_code": True} if trust_remote_code else {}
        config = kind.from_pretrained(folder, **OFFLINE, **extra)
        config.output_attentions = False
        # The class's own choice (sdpa where it has it): config.json may name a kernel to download.
        config._attn_implementation = None
        # The one spelling of a mixture of experts in plain tensor operations: the usual one is a kernel.
        config._experts_implementation = "batched_mm"
        _without_cache(config)
        model, info = loader.from_pretrained(
            folder, config=config, dtype=torch.float32, output_loading_info=True, **OFFLINE, **extra
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
            f"the weights lack {listed(missing)}, which transformers would set to random values",
            slug="hf-weights",
            where=name,
            hint="save the whole model again, or name the class it was saved from in config.json",
        )
    if unexpected:
        raise RefusedError(
            f"{name} has no place for {listed(unexpected)} of the weights",
            slug="hf-weights",
            where=name,
            hint="name the class it was saved from under architectures in config.json",
        )
    if info["error_msgs"]:
        raise RefusedError(f"the weights do not fit {name}: {info['error_msgs'][0]}", slug="hf-weights")


def listed(names: list[str]) -> str:
    """Return the first names, and how many more there are."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def stored_precision(folder: Path) -> tuple[str, ...]:
    """Say that weights stored in half precision are computed with in float32."""
    from safetensors import safe_open

    found = set()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            found |= {_HALF.get(file.get_slice(name).get_dtype()) for name in file.keys()}  # noqa: SIM118
    names = ", ".join(sorted(name for name in found if name))
    return (f"weights stored in {names} are compared and compiled in float32",) if names else ()


@contextlib.contextmanager
def as_refusal(what: str) -> Iterator[None]:
    """Turn what transformers raises for a folder that it cannot load into an error of ours."""
    try:
        yield
    except AotcError:
        raise
    except ImportError as error:
        raise MissingError(
            f"{what} needs a package that is not installed: {first_line(error)}", hint="install that package"
        ) from error
    except Exception as error:
        raise RefusedError(
            f"transformers cannot load {what}: {type(error).__name__}: {first_line(error)}",
            slug="hf-load",
            hint="weights must be model.safetensors, or a pytorch_model.bin that torch.load reads safely",
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of what ``error`` says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
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
