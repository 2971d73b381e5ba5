"""aotc: an ahead-of-time compiler from PyTorch to engines that were checked against eager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from aotc.api import build, check
    from aotc.errors import AotcError
    from aotc.runtime import load

__all__ = ["AotcError", "__version__", "build", "check", "load"]

_HOME = {
    "AotcError": "aotc.errors",
    "build": "aotc.api",
    "check": "aotc.api",
    "load": "aotc.runtime",
}


def __dir__() -> list[str]:
    """Return what ``aotc`` has, also what is not imported yet."""
    return sorted({*globals(), *_HOME})


def __getattr__(name: str) -> Any:
    """Import the compiler or the runtime at first use, so that ``import aotc`` stays light."""
    if name not in _HOME:
        raise AttributeError(f"module 'aotc' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOME[name]), name)
