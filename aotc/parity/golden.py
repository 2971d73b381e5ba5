"""Case files: the inputs of a case, eager's outputs and their bounds, as plain .npz without pickles.

``inputs`` holds one array for each input of the signature and ``outputs``, for each output ``i``, the arrays
``value.i``, ``atol.i``, ``rtol.i``, ``origin.i`` and, where needed, ``unstable.i``. Arrays are numbered in
the order of the signature: names of tensors are free text and never become names of files or members.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic import BaseModel, ConfigDict

from aotc.parity.tolerance import Measured, Tolerance

Array = np.ndarray[Any, Any]


class Reference(BaseModel):
    """One case on disk: its files, or ``refusal``, which says who refused it and why.

    ``strict``: if eager refused the inputs, the engine must refuse them too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str
    kind: str
    sizes: dict[str, int]
    inputs: str
    outputs: str | None
    refusal: str | None = None

    @property
    def strict(self) -> bool:
        """Return whether the engine must refuse what eager refused."""
        return self.kind != "hard"


@dataclasses.dataclass(frozen=True)
class Expected:
    """Eager's value of one output, how far an engine may be from it, and where it is unstable.

    ``measured`` is eager's own error, while it is at hand: it is not stored.
    """

    value: Array
    tolerance: Tolerance
    unstable: Array
    measured: Measured | None = None

    def at_least(self, atol: float) -> Expected:
        """Return the same with a tolerance of at least ``atol``."""
        wider = dataclasses.replace(self.tolerance, atol=max(self.tolerance.atol, atol))
        return dataclasses.replace(self, tolerance=wider)


def write_inputs(path: Path, feeds: Mapping[str, Array], names: tuple[str, ...]) -> None:
    """Write the inputs of a case; ``names`` is the order of the signature."""
    write_arrays(path, {f"value.{i}": feeds[name] for i, name in enumerate(names)})


def read_inputs(file: Path | BinaryIO, names: tuple[str, ...]) -> dict[str, Array]:
    """Read the inputs of a case by name."""
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[f"value.{i}"] for i, name in enumerate(names)}


def write_expected(path: Path, outputs: Mapping[str, Expected], names: tuple[str, ...]) -> None:
    """Write eager's outputs and bounds of a case."""
    arrays: dict[str, Array] = {}
    for i, name in enumerate(names):
        expected = outputs[name]
        arrays[f"value.{i}"] = expected.value
        arrays[f"atol.{i}"] = np.asarray(expected.tolerance.atol)
        arrays[f"rtol.{i}"] = np.asarray(expected.tolerance.rtol)
        arrays[f"origin.{i}"] = np.asarray(expected.tolerance.origin)
        if expected.unstable.any():
            arrays[f"unstable.{i}"] = expected.unstable
    write_arrays(path, arrays)


def read_expected(file: Path | BinaryIO, names: tuple[str, ...]) -> dict[str, Expected]:
    """Read eager's outputs and bounds of a case by name."""
    outputs = {}
    with np.load(file, allow_pickle=False) as archive:
        for i, name in enumerate(names):
            value = archive[f"value.{i}"]
            tolerance = Tolerance(
                float(archive[f"atol.{i}"]),
                float(archive[f"rtol.{i}"]),
                str(archive[f"origin.{i}"]),  # type: ignore[arg-type]
            )
            known = f"unstable.{i}" in archive.files
            outputs[name] = Expected(
                value, tolerance, archive[f"unstable.{i}"] if known else np.zeros(value.shape, bool)
            )
    return outputs


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz archive of ``arrays`` by name; equal arrays give equal bytes.

    Not by ``np.savez``: its own parameters are names that no array could have.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
