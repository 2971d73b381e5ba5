"""From a folder to an engine that runs: verify, choose, create."""

from __future__ import annotations

import contextlib
import os

from aotc import optional
from aotc.bundle import (
    ASSETS,
    Description,
    EngineEntry,
    OpenBundle,
    OpenParts,
    Requirements,
    open_any,
    read_checked,
)
from aotc.errors import CompatibilityError, UsageError
from aotc.runtime.choose import TARGET, choose, other_runtime
from aotc.runtime.cpu import cpu_flags
from aotc.runtime.engine import Engine
from aotc.runtime.parts import Engines
from aotc.runtime.session import check_interface, create_session


def load(
    directory: str | os.PathLike[str], *, threads: int | None = None, allow_unexecuted: bool = False
) -> Engine | Engines:
    """Load the bundle ``directory``. Every file is verified before native code sees a byte of it.

    The bundle of a model in parts gives an engine for each part, by name.

    Args:
        directory: The folder that ``aotc build -o`` wrote.
        threads: Threads for one operator; None leaves the choice to ONNX Runtime.
        allow_unexecuted: Also load a bundle whose engine was never run and has no passed ``aotc check``.

    Raises:
        UsageError: No such folder, or ``threads`` below 1.
        IntegrityError: The files are not the ones that were built, or do not belong together.
        CompatibilityError: The bundle is for another runtime or machine, or its engine was never run.
        MissingError: onnxruntime is not installed.
        StorageError: The files cannot be read.
    """
    with open_any(directory) as opened:
        if not isinstance(opened, OpenParts):
            return load_opened(opened, threads=threads, allow_unexecuted=allow_unexecuted)
        with contextlib.ExitStack() as stack:  # closes what is loaded if a later part cannot be
            engines = {
                name: stack.enter_context(
                    load_opened(part, threads=threads, allow_unexecuted=allow_unexecuted)
                )
                for name, part in opened.parts.items()
            }
            stack.pop_all()
        return Engines(opened.description, engines)


def load_opened(bundle: OpenBundle, *, threads: int | None = None, allow_unexecuted: bool = False) -> Engine:
    """Load the engine of a bundle that has been opened and verified; see :func:`load`."""
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise UsageError(f"threads must be 1 or more, not {threads!r}", slug="threads")
    description = bundle.description
    if not allow_unexecuted:
        _check_executed(bundle.path, description)
    return _engine(bundle, *choose(description, requirements_here()), threads)


def load_for_check(bundle: OpenBundle, *, threads: int | None = None) -> Engine:
    """Load what this machine can run of a bundle: its engine, or else the graph that the engine was made of.

    ``engine.level`` says which.

    Raises:
        AotcError: As :func:`load`, but for an engine that was never run.
    """
    description = bundle.description
    if description.target == TARGET:
        return load_opened(bundle, threads=threads, allow_unexecuted=True)
    graph = description.runnable[-1]
    return _engine(bundle, graph, f"the graph; the engine for {description.target} is not run here", threads)


def _engine(bundle: OpenBundle, entry: EngineEntry, selection: str, threads: int | None) -> Engine:
    description = bundle.description
    weights = {name: bundle.buffer(name) for name in sorted({tensor.file for tensor in entry.tensors})}
    session = create_session(bundle.buffer(entry.file), weights, threads=threads)
    check_interface(session, description.signature)
    assets = {name: bundle.buffer(f"{ASSETS}/{name}") for name in description.assets}
    return Engine(description, entry.file, session, weights, selection, assets)


def requirements_here() -> Requirements:
    """Return what a machine-specific engine built on this machine requires.

    Raises:
        MissingError: onnxruntime is not installed.
    """
    version = optional.require("onnxruntime").__version__
    return Requirements(onnxruntime=version, cpu_flags=cpu_flags())


def _check_executed(directory: str | os.PathLike[str], description: Description) -> None:
    """Refuse an engine that nobody has run, unless a check on this machine vouches for it."""
    if description.level == "executed":
        return
    checked = read_checked(directory)
    if checked is None or not checked.vouches_for(description.digest):
        raise CompatibilityError(
            "the engine of this bundle was never run: only its graph was verified",
            hint=other_runtime(description)
            or f"aotc check {os.fspath(directory)}, on a machine with the device; or allow_unexecuted=True",
        )
