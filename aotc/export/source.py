"""A source: the eager model with its example inputs and everything the source file says about them."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aotc.bundle import clash_in, part_fault
from aotc.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

_PREFIX = "aotc_source_"
_VALUES = ("dynamic_shapes", "profiles", "state")
_LISTS = ("more_inputs", "bad_inputs")
_OPTIONAL = (*_VALUES, *_LISTS, "accuracy", "calibration")
_ALMOST = 0.85
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

    @property
    def given(self) -> str | None:
        """Return the source as the command line takes it, with its own options."""
        return self.path


@dataclasses.dataclass(frozen=True)
class PartsSource:
    """A model in parts: several modules, each a source of its own.

    The modules stay in memory until the last part is built: they come from one call of ``model()``, so that
    all parts have the same weights, and ``accuracy`` runs all of them.
    """

    name: str
    parts: Mapping[str, Source]
    accuracy: Callable[[Mapping[str, Callable[..., Any]]], float] | None = None
    """Given a dict by part of what the metric of one graph is given."""
    path: str | None = None


def split_part(path: Path) -> tuple[Path, str | None]:
    """Return the file and the part that ``model.py:encoder`` names; None for a path without a part."""
    file, _, part = str(path).rpartition(":")
    return (Path(file), part) if file.endswith(".py") and part.isidentifier() else (path, None)


def load_source(path: Path) -> Source | PartsSource:
    """Execute the Python file at ``path`` and return the source it defines.

    ``model()`` is called here: whether it returns a dict says whether all else is by part.

    Raises:
        UsageError: The file is missing or does not define ``model`` and ``inputs``, or what it defines by
            part does not fit the parts. An exception of the file's own code surfaces as itself.
    """
    if not path.is_file():
        raise UsageError(f"there is no source file {path}", slug="source")
    module = _execute(path)
    name = path.resolve().parent.name if path.stem == "model" else path.stem
    return source_of(module, name, _function(module, "model", str(path)), str(path))


def source_of(module: ModuleType, name: str, make: Callable[[], Any], path: str) -> Source | PartsSource:
    """Return the source of which ``module`` defines everything but the model.

    Args:
        module: Defines ``inputs`` and perhaps the other names of a source file.
        name: Of the source.
        make: Makes the model, or a dict of them.
        path: The source as the user named it.

    Raises:
        UsageError: The module does not define ``inputs``, or what it defines by part does not fit the parts.
    """
    _refuse_misspelt(module, path)
    inputs = _function(module, "inputs", path)
    built = [make()]
    fields = {"inputs": inputs(), **_fields(module, by_part=isinstance(built[0], Mapping))}
    accuracy = getattr(module, "accuracy", None)
    if isinstance(built[0], Mapping):
        return parts_source(name, built[0], fields, accuracy=accuracy, path=path)

    # Given away, so that its weights are freed when the caller is done with it.
    def model() -> nn.Module:
        made: nn.Module = built.pop() if built else make()
        return made

    return Source(name=name, model=model, accuracy=accuracy, path=path, **fields)


def _refuse_misspelt(module: ModuleType, path: str) -> None:
    """Refuse ``dynamic_shape = ...``: a name that is almost one of ours would be ignored without a word."""
    for name, value in vars(module).items():
        if (
            isinstance(value, ModuleType | type)
            or getattr(value, "__module__", module.__name__) != module.__name__
        ):
            continue  # imported
        close = difflib.get_close_matches(name, _OPTIONAL, n=1, cutoff=_ALMOST)
        if close and name not in _OPTIONAL and not hasattr(module, close[0]):
            raise UsageError(
                f"{Path(str(module.__file__)).name} defines '{name}', which means nothing to aotc",
                slug="source",
                where=path,
                hint=f"did you mean '{close[0]}'? Rename it if it is a helper of yours",
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


def _fields(module: ModuleType, *, by_part: bool) -> dict[str, Any]:
    """Return what the file says besides model, inputs and metric; lists by part where there are parts."""
    fields = {name: getattr(module, name) for name in _VALUES if hasattr(module, name)}
    for name in _LISTS:
        if (function := getattr(module, name, None)) is None:
            continue
        value = function()
        if by_part and isinstance(value, Mapping):
            fields[name] = {part: _list(value[part], name, module) for part in value}
        else:
            fields[name] = _list(value, name, module)
    return fields


def _list(value: Any, name: str, module: ModuleType) -> Sequence[Any]:
    if not isinstance(value, Iterable):
        raise UsageError(
            f"{name}() must return a list of input sets, not {type(value).__name__}",
            slug="source",
            where=str(module.__file__),
        )
    return list(value)


def parts_source(
    name: str,
    modules: Mapping[str, nn.Module],
    fields: Mapping[str, Any],
    *,
    accuracy: Callable[[Mapping[str, Callable[..., Any]]], float] | None = None,
    path: str | None = None,
) -> PartsSource:
    """Return the source of a dict of modules.

    Args:
        name: Of the whole.
        modules: By part.
        fields: Fields of ``Source``, each a dict by part; a part that is absent has the field's default.
        accuracy: The metric of all parts together.
        path: The source as the user named it.

    Raises:
        UsageError: A name that no part can have, a field that is no dict by part or names another part, or
            no inputs for a part.
    """
    _check_names(modules, path)
    for field, value in fields.items():
        _check_field(field, value, modules, path)
    if bare := [part for part in modules if part not in fields["inputs"]]:
        raise UsageError(f"inputs has nothing for the part '{bare[0]}'", slug="source", where=path)
    parts = {
        part: Source(
            name=f"{name}/{part}",
            model=lambda module=module: module,  # type: ignore[misc]  # the default binds this round's
            path=path and f"{path}:{part}",
            **{field: value[part] for field, value in fields.items() if part in value},
        )
        for part, module in modules.items()
    }
    return PartsSource(name, parts, accuracy, path)


def _check_names(modules: Mapping[Any, Any], path: str | None) -> None:
    if not modules:
        raise UsageError("a model in parts has at least one", slug="source", where=path)
    fault = next(filter(None, (part_fault(str(name)) for name in modules)), None) or clash_in(modules)
    if fault:
        raise UsageError(fault, slug="source", where=path)


def _check_field(field: str, value: Any, modules: Mapping[str, Any], path: str | None) -> None:
    hint = f"parts: {', '.join(modules)}"
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{field} must be a dict by part, as the model is", slug="source", where=path, hint=hint
        )
    if unknown := [str(part) for part in value if part not in modules]:
        raise UsageError(
            f"{field} names what is no part: {', '.join(unknown)}", slug="source", where=path, hint=hint
        )


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
