"""A tiny timm folder with random weights; tests that need one are skipped where timm cannot be imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch


def require() -> Any:
    """Return timm. It needs the torchvision that was built for this torch; there is none for torch 2.13.0."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision of another build
        pytest.skip(f"timm cannot be imported ({error}): .ci/full has torch and torchvision as a pair")
    return timm


def save(folder: Path, name: str = "test_resnet", **options: Any) -> Path:
    """Save a model with three classes and return its folder."""
    timm = require()
    torch.manual_seed(0)
    folder.mkdir()
    model = timm.create_model(name, num_classes=3, **options)
    timm.models.save_for_hf(model, folder, safe_serialization=True)
    return folder


def edit_config(folder: Path, **changed: Any) -> None:
    """Change settings in config.json; None removes one."""
    settings = json.loads((folder / "config.json").read_text()) | changed
    kept = {key: value for key, value in settings.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
