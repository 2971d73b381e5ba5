"""The Python API: ``aotc.build``, ``aotc.check``; ``aotc.load`` is the runtime's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.config import load_options
from aotc.errors import UsageError
from aotc.export.source import PartsSource, Source, parts_source
from aotc.optional import require_compiler
from aotc.parity.verdict import AnyVerdict

if TYPE_CHECKING:
    from torch import nn

    from aotc.parts import PartsResult
    from aotc.seal import BuildResult
    from aotc.sources import AnySource


def build(
    module: nn.Module | Mapping[str, nn.Module] | str | os.PathLike[str],
    inputs: Any = None,
    *,
    out: str | os.PathLike[str],
    target: str = "ort-cpu",
    dynamic_shapes: Any = None,
    profiles: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (),
    more_inputs: Sequence[Any] | Mapping[str, Any] = (),
    bad_inputs: Sequence[Any] | Mapping[str, Any] = (),
    accuracy: Callable[[Any], float] | None = None,
    state: Mapping[str, Any] | None = None,
    name: str | None = None,
    **options: Any,
) -> BuildResult | PartsResult:
    """Compile ``module`` and publish a bundle at ``out``, if and only if it computes what eager computes.

    Args:
        module: The eager model, in eval mode; it is not changed. A dict of modules is a model in parts, each
            a graph of its own: ``inputs``, ``dynamic_shapes``, ``profiles``, ``more_inputs``, ``bad_inputs``
            and ``state`` are then dicts by part, and ``accuracy`` is given a dict of functions. A path is
            that of a source, which brings inputs and all else but ``target`` and ``options``.
        inputs: Example inputs: a tuple of arguments or a dict of keyword arguments of forward. With the path
            of an ONNX file a dict of arrays by input name.
        out: Folder of the bundle; an existing bundle there is replaced at once, or not at all.
        target: What the engine runs on: ``ort-cpu``, or ``tensorrt-rtx:sm_86`` with more architectures.
        dynamic_shapes: As ``torch.export.export`` takes them; default: all static.
        profiles: (min, opt, max) by dim name; several are allowed.
        more_inputs: Further valid inputs in the form of ``inputs``.
        bad_inputs: Inputs that eager refuses; the engine must refuse them too.
        accuracy: Task metric, higher is better; it is given a function that takes what forward takes and
            returns its result in numpy.
        state: Input name to output name: in a stream, the input of a call is the output of the one before.
        name: Name of the bundle; default: the class of ``module``, or the names of its parts.
        **options: Fields of ``aotc.config.Options``: precision, accept, threads, validate, disable,
            dump_dir, tolerance, seed.

    Raises:
        ParityError: The engine differs from eager; nothing was published.
        RefusedError: This model cannot be compiled; says which part and why.
        UnexecutedError: The engine cannot be run here, and ``accept`` is not ``graph``.
        AotcError: Bad options, missing packages, failing storage.
    """
    require_compiler()
    from aotc import parts, pipeline
    from aotc.sources import open_source

    given = {
        "dynamic_shapes": dynamic_shapes,
        "profiles": profiles,
        "more_inputs": more_inputs,
        "bad_inputs": bad_inputs,
        "state": state,
    }
    fields = {field: value for field, value in given.items() if value not in (None, ())}
    loaded = load_options({"target": target, **options}, Path.cwd())
    source: AnySource | PartsSource
    if isinstance(module, str | os.PathLike):
        _refuse_fields(Path(module), {**fields, "accuracy": accuracy, "name": name})
        source = open_source(Path(module), inputs, options=loaded)
    elif isinstance(module, Mapping):
        fields |= {"inputs": inputs}
        source = parts_source(name or "-".join(map(str, module)), module, fields, accuracy=accuracy)
    else:
        fields |= {"inputs": inputs, "accuracy": accuracy}
        source = Source(name=name or type(module).__name__, model=lambda: module, **fields)
    if isinstance(source, PartsSource):
        return parts.build(source, loaded, Path(out))
    return pipeline.build(source, loaded, Path(out))


def _refuse_fields(path: Path, fields: Mapping[str, Any]) -> None:
    if given := [field for field, value in fields.items() if value is not None]:
        raise UsageError(
            f"{given[0]} is given for a source that says it itself",
            slug="source",
            where=str(path),
            hint=f"define it in {path.name}, or give the module itself",
        )


def check(
    bundle: str | os.PathLike[str],
    source: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    **options: Any,
) -> AnyVerdict:
    """Verify a bundle again and return the verdict; ``verdict.passed`` says whether it holds.

    Args:
        bundle: The folder.
        source: The source: eager is run again. Without it the golden inputs are replayed, without torch.
        threads: Threads of the engine.
        **options: How the source is read: trust_source, trust_remote_code.

    Raises:
        IntegrityError: The bundle's files are not the ones that were built.
        AotcError: As ``aotc.load``.
    """
    from aotc import parts

    if source is None:
        return parts.check_golden(Path(bundle), threads)[0]
    from aotc.sources import open_source_of  # not needed by those who only replay a bundle

    opened = open_source_of(Path(bundle), Path(source), load_options(options, Path.cwd()))
    return parts.check_source(Path(bundle), opened, threads=threads)[0]
