"""Builds a model of the zoo and says what came of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import tiny_hf
import tiny_timm
import torch
from zoo import TIMM, ZOO

from aotc import pipeline
from aotc.config import Options
from aotc.errors import AotcError
from aotc.export.hf_folder import load_hf_folder
from aotc.export.source import Source
from aotc.export.timm_folder import load_timm_folder

ATTENTION = ("sdpa", "eager")


@dataclasses.dataclass(frozen=True)
class Row:
    """One build: ``outcome`` is ``verified`` or what the error says, ``ratio`` the worst error by bound."""

    name: str
    attention: str
    outcome: str
    dims: str = ""
    cases: int = 0
    ratio: float = 0.0


def build(name: str, attention: str, folder: Path) -> Row | None:
    """Build the model ``name``; None if the library has no such form of its attention.

    ``attention`` is transformers' word; timm's fused attention, which its models have on or off, is ``sdpa``.
    """
    if (source := source_of(name, attention, folder / "model")) is None:
        return None
    try:
        built = pipeline.build(source, Options(threads=1), folder / "bundle")
    except AotcError as error:
        return Row(
            name, attention, f"{error.name}: {error.message}" + (f" ({error.where})" if error.where else "")
        )
    profile = built.description.signature.profiles[0]
    dims = ", ".join(f"{dim} {sizes.min} to {sizes.max}" for dim, sizes in profile.items())
    cases = [case for engine in built.verdict.engines for case in engine.cases]
    return Row(name, attention, "verified", dims, len(cases) // 2, max(case.ratio for case in cases))


def source_of(name: str, attention: str, folder: Path) -> Source | None:
    """Return the model ``name`` as a source, saved in ``folder``; None as ``build``."""
    torch.manual_seed(0)
    return (_from_timm if name in TIMM else _from_transformers)(name, attention, folder)


def _from_transformers(name: str, attention: str, folder: Path) -> Source | None:
    model = ZOO[name]()
    if attention == "sdpa" and not model._supports_sdpa:
        return None
    source = load_hf_folder(tiny_hf.save(model, folder))

    def spelled() -> Any:
        module = source.model()
        if attention == "eager":  # the other is the default, where a model has it
            module.set_attn_implementation("eager")
        assert module.config._attn_implementation == attention
        return module

    return dataclasses.replace(source, model=spelled)


def _from_timm(name: str, attention: str, folder: Path) -> Source | None:
    wanted, fused = TIMM[name], attention == "sdpa"
    layers = tiny_timm.require().layers
    tiny_timm.save(folder, wanted.architecture, **wanted.options)
    layers.set_fused_attn(fused, experimental=True)
    try:
        source = load_timm_folder(folder, wanted.sizes)
        module = source.model()
    finally:
        layers.set_fused_attn(True)
    forms = {part.fused_attn for part in module.modules() if hasattr(part, "fused_attn")}
    if fused and not forms:
        return None
    assert forms <= {fused}
    return dataclasses.replace(source, model=lambda: module)
