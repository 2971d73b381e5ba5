"""A source: the eager model with its example inputs and everything the source file says about them."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from aotc.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

_PREFIX = "aotc_source_"
_packages: set[str] = set()
SOURCE_MODULE = re.compile(rf"\b{_PREFIX}[0-9a-f]{{8}}_")
"""What the name of a source file's module has before the file's own."""
Sizes = tuple[int, int, int]
"""(min, opt, max) of a dim."""


@dataclasses.dataclass(frozen=True)
class Source:
    """What the user hands in.

    ``model`` is called once a build and the result is dropped as soon as eager has run, so that the weights
    of model and engine are never in memory together. Inputs are a tuple (positional) or a dict (keywords).
    """

    name: str
    model: Callable[[], nn.Module]
    inputs: Any
    more_inputs: Sequence[Any] = ()
    bad_inputs: Sequence[Any] = ()
    dynamic_shapes: Any = None
    profiles: Sequence[Mapping[str, Any]] = ()
    accuracy: Callable[[Callable[..., Any]], float] | None = None
    state: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Input name to output name: in a stream, the input of a call is the output of the one before."""
    path: str | None = None
    """The source as the user named it, for messages."""
    assets: Sequence[Path] = ()
    """Files that travel in the bundle, under ``assets/``."""
    notes: Sequence[str] = ()
    """What the build should say about how the source was read."""
    reference: ClassVar[str] = "eager"
    """What the engine is compared with, for messages."""


def load_source(path: Path) -> Source:
    """Execute the Python file at ``path`` and return the source it defines.

    Raises:
        UsageError: The file is missing or does not define ``model`` and ``inputs``. An exception of the
            file's own code surfaces as itself.
    """
    if not path.is_file():
        raise UsageError(f"there is no source file {path}", slug="source")
    module = _execute(path)
    model = _function(module, "model", str(path))
    return source_of(
        module, path.resolve().parent.name if path.stem == "model" else path.stem, model, str(path)
    )


def source_of(module: ModuleType, name: str, model: Callable[[], nn.Module], path: str) -> Source:
    """Return the source of which ``module`` defines everything but the model.

    Args:
        module: Defines ``inputs`` and perhaps the other names of a source file.
        name: Of the source.
        model: Makes the model.
        path: The source as the user named it.

    Raises:
        UsageError: The module does not define ``inputs``.
    """
    return Source(
        name=name,
        model=model,
        inputs=_function(module, "inputs", path)(),
        more_inputs=_list(module, "more_inputs"),
        bad_inputs=_list(module, "bad_inputs"),
        dynamic_shapes=getattr(module, "dynamic_shapes", None),
        profiles=getattr(module, "profiles", ()),
        accuracy=getattr(module, "accuracy", None),
        state=getattr(module, "state", {}),
        path=path,
    )


def _function(module: ModuleType, name: str, path: str) -> Any:
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(
            f"{Path(str(module.__file__)).name} does not define the function {name}()",
            slug="source",
            where=path,
            hint="a source file defines model() and inputs(); see samples/ for examples",
        )
    return function


def note_package(module: str) -> None:
    """Remember that a source comes from ``module``: what its package raises is the user's."""
    _packages.add(module.partition(".")[0])


def is_of_source(module: str) -> bool:
    """Return whether the module of that name is a source file, or of a package that a source is from."""
    return module.startswith(_PREFIX) or module.partition(".")[0] in _packages


def as_given(path: Path, sizes: Mapping[str, Sizes], *flags: str) -> str:
    """Return ``path`` with the options that another command needs to read it in the same way."""
    given = [f"--dim {name}={':'.join(map(str, size))}" for name, size in sizes.items()]
    return " ".join([str(path), *given, *flags])


def _list(module: ModuleType, name: str) -> Sequence[Any]:
    function = getattr(module, name, None)
    if function is None:
        return ()
    value = function()
    if not isinstance(value, Iterable):
        raise UsageError(
            f"{name}() must return a list of input sets, not {type(value).__name__}",
            slug="source",
            where=str(module.__file__),
        )
    return list(value)


def _execute(path: Path) -> ModuleType:
    # A name of its own for each path; SOURCE_MODULE takes it out of what is written to a bundle.
    name = f"{_PREFIX}{zlib.crc32(bytes(path.resolve())):08x}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file", slug="source")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickled classes look their module up by name.
    sys.modules[name] = module
    try:
        # Not the loader's exec_module: it would trust a __pycache__ that may be older than the file.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
