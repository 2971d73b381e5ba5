"""Example inputs of an ONNX file: the user's, or drawn ones that the file itself accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc import dims
from aotc.errors import InputError, UsageError
from aotc.export.index_ranges import find_index_ranges
from aotc.runtime.failures import runtime_failures, text_of
from aotc.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Run = Callable[[Mapping[str, Array]], list[Array]]
"""Runs the untouched file on flat inputs; returns its outputs in the file's order."""

_BATCH = 2
_SIZES = (64, 32, 16, 224, 2, 1)
"""Sizes to try for a dim of which nothing is known; the first that the file accepts is taken."""
_INTEGERS = (100, 2, 1)
"""What integers of several axes are drawn below until their range is known."""
_GIVE = "give inputs that it accepts, --inputs FILE.npz, or sizes, --dim NAME=MIN:OPT:MAX"


def given_example(inputs: Feeds, signature: Signature) -> Feeds:
    """Return the user's inputs in the signature's order.

    Raises:
        InputError: They do not fit the file.
    """
    try:
        signature.check(inputs)
    except InputError as error:
        names = ", ".join(f"{spec.name} ({spec.dtype})" for spec in signature.inputs)
        raise InputError(
            f"the given inputs do not fit the file: {error.message}", hint=error.hint or f"inputs: {names}"
        ) from error
    return {spec.name: np.array(inputs[spec.name], order="C") for spec in signature.inputs}


def find_example(signature: Signature, run: Run, given: Feeds | None) -> Feeds:
    """Return the user's example, or without one the first drawn inputs that the file accepts.

    Args:
        signature: The inputs.
        run: Runs the untouched file.
        given: The user's example, if there is one.

    Raises:
        UsageError: The file refuses the example, or everything that was drawn.
    """
    said = None
    for feeds in [given] if given is not None else _drawn(signature):
        said = _refusal(run, feeds)
        if said is None:
            return feeds
    raise UsageError(f"the file refuses the example inputs: {said}", slug="eager-refuses", hint=_GIVE)


def accepts(run: Run, feeds: Feeds) -> bool:
    """Return whether the file accepts these inputs."""
    return _refusal(run, feeds) is None


def _refusal(run: Run, feeds: Mapping[str, Array]) -> str | None:
    """Return what the runtime says if it refuses the inputs."""
    try:
        run(feeds)
    except runtime_failures() as error:
        return text_of(error)
    return None


def find_ranges(signature: Signature, model: ir.Model, example: Feeds, run: Run) -> Signature:
    """Return the signature with the range of every index input.

    Args:
        signature: The inputs.
        model: The graph, with shapes.
        example: Inputs that the file accepts.
        run: Runs the untouched file.
    """
    sizes = signature.check(example)
    ranges = find_index_ranges(model, example, sizes, lambda feeds: _refusal(run, feeds) is not None)
    specs = tuple(spec.model_copy(update={"range": ranges.get(spec.name)}) for spec in signature.inputs)
    return signature.model_copy(update={"inputs": specs})


def draw_indices(signature: Signature, example: Feeds, run: Run) -> Feeds:
    """Draw the index inputs of a drawn example again, now that their ranges are known."""
    drawn = draw(signature, signature.check(example))
    indices = {spec.name for spec in signature.inputs if spec.range is not None}
    again = {name: drawn[name] if name in indices else example[name] for name in example}
    return again if accepts(run, again) else example


def _drawn(signature: Signature) -> Iterator[Feeds]:
    for below in _INTEGERS:
        for size in _SIZES:
            yield draw(signature, _sizes(signature, size), below)


def _sizes(signature: Signature, size: int) -> dict[str, int]:
    """Return a size for every dim: its profile's, 2 for a batch (an axis 0), else ``size``."""
    batches = {spec.shape[0] for spec in signature.inputs if len(spec.shape) > 1}
    sizes = {name: min(size, _BATCH) if name in batches else size for name in signature.dims}
    return sizes | {name: allowed.opt for profile in signature.profiles for name, allowed in profile.items()}


def draw(signature: Signature, sizes: Mapping[str, int], below: int = _INTEGERS[0]) -> Feeds:
    """Return inputs of the given sizes; integers without a known range are below ``below``."""
    rng = np.random.default_rng(0)
    return {spec.name: _array(rng, spec, sizes, below) for spec in signature.inputs}


def _array(rng: np.random.Generator, spec: TensorSpec, sizes: Mapping[str, int], below: int) -> Array:
    shape = tuple(dims.evaluate(size, sizes) for size in spec.shape)
    if spec.range is not None:
        low, high = max(dims.evaluate(spec.range.low, sizes), 0), dims.evaluate(spec.range.high, sizes)
        if spec.range.unique and shape and shape[-1] <= high - low + 1:
            row = rng.permutation(np.arange(low, high + 1))[: shape[-1]]
            return np.broadcast_to(row, shape).astype(spec.dtype)
        return rng.integers(low, high, shape, endpoint=True).astype(spec.dtype)
    if spec.dtype.startswith("float"):
        return rng.standard_normal(shape).astype(spec.dtype)
    if spec.dtype == "bool" or "mask" in spec.name.lower() or len(shape) < 2:
        return np.full(shape, min(below - 1, 1), spec.dtype)
    return rng.integers(0, below, shape).astype(spec.dtype)
