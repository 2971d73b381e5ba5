"""An adapter (LoRA and its kin) on disk: merged by ``peft`` into the base model that it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aotc import optional
from aotc.errors import RefusedError
from aotc.export.hf_assets import read_json
from aotc.export.hf_weights import OFFLINE, as_refusal, listed

ADAPTER = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_BASE = "base_model_name_or_path"


def base_folder(adapter: Path) -> Path:
    """Return the folder of the base model, which ``adapter_config.json`` names by a path.

    A relative path counts from the working directory, as in ``peft``, or else from the adapter's folder.

    Raises:
        RefusedError: It is no folder on this machine.
    """
    name = str(read_json(adapter / ADAPTER).get(_BASE) or "")
    for base in (Path(name), adapter / name):
        if name and base.is_dir():
            return base
    raise RefusedError(
        f"the adapter's base model '{name}' is no folder here, and nothing is downloaded",
        slug="hf-adapter",
        where=f"{_BASE} in {ADAPTER}",
        hint="write the path of the base model's folder there",
    )


def merge(model: Any, adapter: Path) -> Any:
    """Return ``model`` with the adapter's weights added to its own, in float32.

    Raises:
        MissingError: peft is not installed.
        RefusedError: The adapter does not fit, or is of a kind that cannot be merged (prompts, prefixes).
    """
    peft = optional.require("peft")
    if not (adapter / _WEIGHTS).is_file():
        raise RefusedError(
            f"the adapter has no {_WEIGHTS}",
            slug="hf-adapter",
            where=str(adapter),
            hint="save it with safe_serialization=True",
        )
    with as_refusal(f"the adapter {adapter.name}"):
        wrapped = peft.PeftModel.from_pretrained(model, str(adapter), **OFFLINE)
        expected = set(peft.get_peft_model_state_dict(wrapped, save_embedding_layers=False))
        if not hasattr(wrapped, "merge_and_unload"):
            kind = read_json(adapter / ADAPTER).get("peft_type")
            raise RefusedError(f"an adapter of the type {kind} cannot be merged", slug="hf-adapter")
        _refuse_other_weights(expected, adapter, type(model).__name__)
        return wrapped.merge_and_unload(safe_merge=True).eval()


def _refuse_other_weights(expected: set[str], adapter: Path, name: str) -> None:
    """Weights that peft did not find stay random, and those that it has no place for are dropped."""
    from safetensors import safe_open

    with safe_open(adapter / _WEIGHTS, framework="numpy") as file:
        found = set(file.keys())
    if expected != found:
        verb = "lacks" if expected - found else "has no place for"
        what = listed(sorted((expected - found) or (found - expected)))
        who = f"the adapter {adapter.name}" if expected - found else name
        raise RefusedError(
            f"{who} {verb} {what}",
            slug="hf-adapter",
            where=_WEIGHTS,
            hint="merge it with peft into the model that it was trained on, and build what that saves",
        )
