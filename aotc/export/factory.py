"""``package.module:factory`` as a source: a function of an importable module that makes the model."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from aotc.errors import UsageError
from aotc.export.source import PartsSource, Source, note_package, source_of

_FORM = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")


def is_factory(text: str) -> bool:
    """Return whether ``text`` is like ``package.module:factory``, and no file or folder is called so."""
    return _FORM.fullmatch(text) is not None and not Path(text).exists()


def load_factory(spec: str) -> Source | PartsSource:
    """Import the module of ``spec`` and return the source that its factory makes.

    A factory that returns an ``nn.Module`` stands for ``model()``: the other names of a source file are
    looked up in the same module. One that returns a ``Source`` has said everything.

    Args:
        spec: ``package.module:factory``; the working directory is searched first, as by ``python -m``.

    Raises:
        UsageError: No such module or factory, it takes arguments, or no inputs() go with it. An exception of
            the module's own code surfaces as itself.
    """
    from torch import nn

    module_name, name = spec.split(":")
    module = _import(module_name)
    factory = _factory(module, name, spec)
    made = [factory()]
    if isinstance(made[0], Source):
        return dataclasses.replace(made[0], path=made[0].path or spec)
    if not isinstance(made[0], nn.Module):
        raise UsageError(
            f"{name}() returns a {type(made[0]).__qualname__}, not a torch.nn.Module",
            slug="source",
            where=spec,
            hint="return the model with its weights, in eval mode, or an aotc.export.source.Source",
        )
    # Given away, so that its weights are freed when the caller is done with it.
    return source_of(module, name, lambda: made.pop() if made else factory(), spec)


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    note_package(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # of what the module itself imports
        raise UsageError(
            f"there is no module '{error.name}'",
            slug="source",
            where=name,
            hint="run aotc in the folder that holds the package, or install it",
        ) from error


def _factory(module: ModuleType, name: str, spec: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        functions = inspect.getmembers(module, inspect.isfunction)
        own = [key for key, value in functions if value.__module__ == module.__name__ and key[0] != "_"]
        raise UsageError(
            f"{module.__name__} has no function '{name}'",
            slug="source",
            where=spec,
            hint=f"its functions: {', '.join(own) or 'none'}",
        )
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError) as error:  # ValueError: nothing is known of its arguments
        raise UsageError(
            f"{name}() cannot be called without arguments: {error}",
            slug="source",
            where=spec,
            hint="write a function without arguments that calls it, and name that",
        ) from error
    return found
