"""What torch wrote into a file, read off its names and first bytes: nothing is unpickled to find out."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal

from aotc.errors import RefusedError, UsageError

Kind = Literal["program", "script", "weights"]
_WEIGHTS = frozenset({".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".ts"})
_PICKLE = b"\x80"
"""Every pickle since protocol 2 starts with it, and no Python file can."""


def kind_of(path: Path) -> Kind | None:
    """Return what kind of file torch wrote at ``path``; None if it is none of torch's, or there is none."""
    if not path.is_file():
        return None
    names = _members(path)
    if path.suffix.lower() == ".pt2" or any("/models/" in name for name in names):
        return "program"
    if any("/code/" in name for name in names):
        return "script"
    if path.suffix.lower() in _WEIGHTS or any(name.endswith("/data.pkl") for name in names):
        return "weights"
    with path.open("rb") as file:
        return "weights" if file.read(1) == _PICKLE else None


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []


def script_refusal(path: Path) -> RefusedError:
    """Return why a TorchScript file is no source."""
    return RefusedError(
        f"{path.name} is a TorchScript module, which torch.export cannot trace",
        slug="script-module",
        where=str(path),
        hint="hand in the nn.Module that it was made from; torch.jit.load(path).state_dict() has its weights",
    )


def weights_error(path: Path) -> UsageError:
    """Return what to do with a file of weights, which is no source without a forward."""
    load = (
        f'safetensors.torch.load_file("{path.name}")'
        if path.suffix.lower() == ".safetensors"
        else f'torch.load("{path.name}", weights_only=True)'
    )
    lines = [
        "write a source file that defines inputs() and a model() which loads it:",
        "def model():",
        "    module = MyModel()",
        f"    module.load_state_dict({load})",
        "    return module.eval()",
    ]
    return UsageError(
        f"{path.name} holds weights and no forward", slug="source", where=str(path), hint="\n    ".join(lines)
    )
