"""How far the result of each module is from the reference: the figures behind the report's picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.bundle import EngineEntry
from aotc.errors import AotcError
from aotc.ir.prefix import FLOATS, part
from aotc.parity import golden
from aotc.parity.golden import Reference
from aotc.parity.inner_values import InnerValues
from aotc.parity.tolerance import derive
from aotc.runtime.session import run_once
from aotc.runtime.unsealed import map_files
from aotc.signature import Signature

Array = np.ndarray[Any, Any]
MOST_MODULES = 64
"""Of more modules only the outer ones are shown."""
MOST_BYTES = 64 << 20
"""So much of the results is kept until the engine has run."""
_FILE = "modules.npz"


@dataclasses.dataclass(frozen=True)
class ModuleError:
    """How far the result of a module is from the reference, on one case.

    ``where`` is ``file.py:line``, None if unknown; ``bound`` is what contract 1 gives for this value.
    """

    module: str
    where: str | None
    max_abs: float
    bound: float


@dataclasses.dataclass(frozen=True)
class ModuleResults:
    """The reference's side: the value of the graph that is a module's result, its place and its bound.

    The results themselves lie in ``folder`` until the engine has run.
    """

    folder: Path
    inputs: tuple[str, ...]
    case: Reference
    found: tuple[tuple[str, str, str, float], ...]
    """(module, line, value, bound)."""
    notes: tuple[str, ...] = ()

    @classmethod
    def record(
        cls,
        model: ir.Model,
        inner: InnerValues,
        signature: Signature,
        references: Sequence[Reference],
        folder: Path,
    ) -> ModuleResults:
        """Run the reference once more, on the first case, and keep what its modules return.

        Args:
            model: The graph after the passes: it says which results are left.
            inner: The reference.
            signature: Names of the inputs.
            references: The cases.
            folder: Of their files; the results go there too.

        Returns:
            Without results where the graph knows no modules, or eager refuses the first case; and where the
            program does not run node by node, with a note.
        """
        case, inputs = references[0], tuple(spec.name for spec in signature.inputs)
        places = _results(model.graph, inner)
        if not places or case.outputs is None:
            return cls(folder, inputs, case, ())
        feeds = golden.read_inputs(folder / case.inputs, inputs)
        names = list(dict.fromkeys(places.values()))
        try:
            right, wide = inner.run(feeds, names), inner.run_float64(feeds, names) or {}
        except Exception as error:  # noqa: BLE001 - whatever it is: a picture that is missing fails no build
            note = (
                f"the report has no errors by module: the program does not run alone ({type(error).__name__})"
            )
            return cls(folder, inputs, case, (), (note,))
        kept: dict[str, Array] = {}
        found: list[tuple[str, str, str, float]] = []
        for module, name in places.items():
            if sum(array.nbytes for array in kept.values()) + right[name].nbytes <= MOST_BYTES:
                kept[str(len(found))] = right[name]
                bound = derive(right[name], wide.get(name)).atol
                found.append((module, inner.origin(name).line, name, bound))
        golden.write_arrays(folder / _FILE, kept)
        return cls(folder, inputs, case, tuple(found))

    def measure(self, directory: Path, portable: EngineEntry, threads: int | None) -> tuple[ModuleError, ...]:
        """Run the portable engine, which the gate has run by now, as far as these results.

        The runtime cannot fuse across a result that is asked for: this is for a picture, and no verdict.

        Returns:
            Nothing where the engine refuses the case.
        """
        if not self.found:
            return ()
        model = ir.load(directory / portable.file)
        graph = part(model, [], list(dict.fromkeys(value for _, _, value, _ in self.found)))
        feeds = golden.read_inputs(self.folder / self.case.inputs, self.inputs)
        content, weights = ir.to_proto(graph).SerializeToString(), map_files(directory, portable)
        try:
            got = run_once(content, weights, feeds, threads=threads)
        except AotcError:  # the verdict says so of the whole engine
            return ()
        with np.load(self.folder / _FILE, allow_pickle=False) as right:
            return tuple(
                ModuleError(module, line or None, _largest(got[value], right[str(index)]), bound)
                for index, (module, line, value, bound) in enumerate(self.found)
            )


def _results(graph: ir.Graph, inner: InnerValues) -> dict[str, str]:
    """Return the last floating value that each module computes, of at most ``MOST_MODULES`` modules."""
    last: dict[str, str] = {}
    for node in graph:
        for value in node.outputs:
            if value.name in inner.names and value.dtype in FLOATS:
                steps = inner.origin(str(value.name)).module.split(".")
                for depth in range(1, len(steps) + 1):
                    path = ".".join(steps[:depth])
                    last.pop(path, None)
                    last[path] = str(value.name)
    outer = sorted((path for path in last if path), key=lambda path: path.count("."))[:MOST_MODULES]
    return {path: name for path, name in last.items() if path in outer}


def _largest(got: Array, right: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - right.astype(np.float64))
    return float(error[np.isfinite(error)].max(initial=0.0))
