"""The one door to packages that the base install does not bring."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from aotc.errors import MissingError
from aotc.target import Target

_EXTRA_OF = {
    "onnx": "build",
    "onnx_ir": "build",
    "onnxruntime": "cpu",
    "onnxscript": "build",
    "peft": "hf",
    "tensorrt_rtx": "rtx",
    "timm": "timm",
    "torch": "build",
    "torchvision": "timm",
    "transformers": "hf",
}


def require(name: str) -> Any:
    """Import ``name`` and return the module.

    Returns ``Any`` because callers use the package's own API without stubs.

    Raises:
        MissingError: The package is not installed; the message names the extra that brings it.
    """
    try:
        module: ModuleType = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        extra = _EXTRA_OF.get(name, "build")
        raise MissingError(f"the package '{name}' is not installed", hint=how_to_install(extra)) from error
    return module


def require_compiler() -> None:
    """Say which package is missing before the user's own file fails to import it.

    Raises:
        MissingError: A package of the extras ``build`` or ``cpu`` is not installed.
    """
    for name in ("onnxruntime", "onnx", "onnx_ir", "onnxscript", "torch"):
        require(name)


def require_backend(target: Target) -> None:
    """Say that the compiler of ``target`` is missing before anything else is done.

    Raises:
        MissingError: Its package is not installed.
    """
    if target.name == "tensorrt-rtx":
        require("tensorrt_rtx")


def how_to_install(extra: str) -> str:
    """Return what to type for the packages of ``extra``; torch comes first and by its tested version.

    timm imports torchvision, which loads only beside the torch it was built for: they come as a pair.
    """
    if extra == "rtx":
        return 'pip install "aotc[rtx]", which brings tensorrt-rtx-cu13'
    torch = {"build": "torch==2.13.0", "timm": "torch==2.14.1 torchvision==0.29.1"}.get(extra)
    return f'{f"pip install {torch}, then " if torch else ""}pip install "aotc[{extra}]"'
