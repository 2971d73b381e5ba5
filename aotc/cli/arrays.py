"""Arrays on the command line: .npz in and out, and their one-line summaries."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from aotc.errors import UsageError

Array = np.ndarray[Any, Any]


def read_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of an .npz file by name; pickled objects are refused.

    Raises:
        UsageError: The file is not such an archive.
    """
    hint = "numpy.savez(file, name=array, ...) writes one"
    if not zipfile.is_zipfile(path):
        path.open("rb").close()  # what cannot be read at all is another error
        raise UsageError(f"{path} is not an .npz archive of named arrays", slug="input", hint=hint)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read as arrays: {error}", slug="input", hint=hint) from error


def summary(array: Array) -> dict[str, Any]:
    """Return shape, dtype, and for numbers the range and the mean; NaN and Inf are counted apart."""
    result: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    finite = array[np.isfinite(array)] if array.dtype.kind in "fc" else array
    if finite.size:
        wide = finite.astype(np.float64)
        result |= {"min": float(wide.min()), "max": float(wide.max()), "mean": float(wide.mean())}
    result["not_finite"] = int(array.size - finite.size)
    return result
