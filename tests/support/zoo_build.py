"""Builds a model of the zoo and says what came of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import tiny_hf
import torch
from zoo import ZOO

from aotc import pipeline
from aotc.config import Options
from aotc.errors import AotcError
from aotc.export.hf_folder import load_hf_folder

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
    """Build the model ``name``; None if transformers has no such form of its attention."""
    torch.manual_seed(0)
    model = ZOO[name]()
    if attention == "sdpa" and not model._supports_sdpa:
        return None
    source = load_hf_folder(tiny_hf.save(model, folder / "model"))

    def spelled() -> Any:
        module = source.model()
        if attention == "eager":  # the other is the default, where a model has it
            module.set_attn_implementation("eager")
        assert module.config._attn_implementation == attention
        return module

    try:
        built = pipeline.build(
            dataclasses.replace(source, model=spelled), Options(threads=1), folder / "bundle"
        )
    except AotcError as error:
        return Row(
            name, attention, f"{error.name}: {error.message}" + (f" ({error.where})" if error.where else "")
        )
    profile = built.description.signature.profiles[0]
    dims = ", ".join(f"{dim} {sizes.min} to {sizes.max}" for dim, sizes in profile.items())
    cases = [case for engine in built.verdict.engines for case in engine.cases]
    return Row(name, attention, "verified", dims, len(cases) // 2, max(case.ratio for case in cases))
