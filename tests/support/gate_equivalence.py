"""Whether a mutant that the gate let pass computes the same: shown in float64, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from gate_trial import ORACLE, Recorded

from aotc import dims
from aotc.errors import AotcError
from aotc.parity.inputs import Feeds, generate
from aotc.parity.onnx_float64 import WideGraph
from aotc.signature import Signature, TensorSpec

Array = np.ndarray[Any, Any]
Run = Callable[[Feeds], Mapping[str, Array]]
Way = Callable[[ir.Model], Run]
ROUNDING = 1e-12
"""Two float64 results this near, relative to the largest value, differ by the order of their sums alone."""
DRAWS, SEED, MOST = 6, 101, 16


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far a mutant is from the original in exact arithmetic, in shares of the gate's bounds.

    ``seen`` is over the inputs of the gate, ``elsewhere`` over further ones, in shares of the largest value;
    both are 0 for an equivalent mutant.
    """

    seen: float
    elsewhere: float

    @property
    def equivalent(self) -> bool:
        """Return whether no input showed a difference."""
        return self.seen == 0 == self.elsewhere


class Equivalence:
    """Compares mutants of one model with it, on the gate's inputs and on others.

    Args:
        recorded: The model.
        more: Inputs that neither the gate nor this would think of.
    """

    def __init__(self, recorded: Recorded, more: Sequence[Feeds] = ()) -> None:
        self._model = recorded.model
        self._outputs = tuple(spec.name for spec in recorded.signature.outputs)
        accepted = [r for r in recorded.references if r.outputs is not None and 0 not in r.sizes.values()]
        self._count = len(accepted)
        self._feeds = [*map(recorded.inputs, accepted), *_further_inputs(recorded), *more]
        self._originals: dict[Way, list[Sequence[Array] | None]] = {}

    def of(self, model: ir.Model, *, rounds: bool) -> Difference:
        """Compare ``model`` bit for bit in float32, and where that differs in float64.

        Args:
            model: The mutant.
            rounds: Whether all it does is to round, which float64 does not see.
        """
        found = self._differences(model, _in_float32)
        if not rounds and any(found):
            found = self._differences(model, _in_float64)
        return Difference(max(found[: self._count]), max(found[self._count :], default=0.0))

    def _differences(self, model: ir.Model, way: Way) -> list[float]:
        if way not in self._originals:
            self._originals[way] = [_try(way(self._model), feeds, self._outputs) for feeds in self._feeds]
        run = way(model)
        pairs = zip(self._feeds, self._originals[way], strict=True)
        return [_apart(_try(run, feeds, self._outputs), original) for feeds, original in pairs]


def _in_float32(model: ir.Model) -> Run:
    return lambda feeds: ORACLE.run(model, feeds)


def _in_float64(model: ir.Model) -> Run:
    graph = WideGraph(model.clone(), 1)
    names = [str(value.name) for value in model.graph.outputs]
    return lambda feeds: dict(zip(names, graph.run(feeds), strict=True))


def _try(run: Run, feeds: Feeds, outputs: Sequence[str]) -> Sequence[Array] | None:
    try:
        found = run(feeds)
    except AotcError:
        return None
    return [found[name] for name in outputs]


def _apart(mine: Sequence[Array] | None, theirs: Sequence[Array] | None) -> float:
    """Return the largest difference in shares of the largest value; 0 within rounding, infinite in kind."""
    if theirs is None:
        return 0.0
    if mine is None:
        return float("inf")
    return max(map(_apart_of, mine, theirs), default=0.0)


def _apart_of(mine: Array, theirs: Array) -> float:
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return float("inf")
    if theirs.dtype.kind not in "fc":
        return 0.0 if np.array_equal(mine, theirs) else float("inf")
    finite = np.isfinite(theirs)
    if (
        not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True)
        or not np.isfinite(mine[finite]).all()
    ):
        return float("inf")
    largest = float(np.abs(theirs[finite]).max(initial=0.0))
    error = float(np.abs(mine[finite].astype(np.float64) - theirs[finite]).max(initial=0.0))
    share = error / largest if largest else float(error > 0)
    return 0.0 if share <= ROUNDING else share if np.isfinite(share) else float("inf")


def _further_inputs(recorded: Recorded) -> list[Feeds]:
    """Return inputs that the gate has not tried: other draws of its own, and wider ones at other sizes."""
    signature = recorded.reference.signature
    valid = [feeds for _, ok, feeds in recorded.given if ok]
    found = [
        case.feeds
        for case in generate(signature, valid, seed=SEED)
        if case.kind in ("profile", "size") and 0 not in case.sizes.values()
    ]
    rng = np.random.default_rng(0)
    example = signature.check(recorded.example)
    wide = [_draw(signature, rng, example, recorded.example) for _ in range(DRAWS)]
    return (found + wide)[-MOST:]


def _draw(signature: Signature, rng: np.random.Generator, example: dict[str, int], given: Feeds) -> Feeds:
    profile = signature.profiles[0] if signature.profiles else {}
    sizes = {
        name: int(rng.integers(profile[name].min, profile[name].max, endpoint=True))
        if name in profile
        else int(rng.integers(1, 2 * size, endpoint=True))
        for name, size in example.items()
    }
    return {spec.name: _values(spec, rng, sizes, given[spec.name]) for spec in signature.inputs}


def _values(spec: TensorSpec, rng: np.random.Generator, sizes: dict[str, int], given: Array) -> Array:
    shape = tuple(dims.evaluate(size, sizes) for size in spec.shape)
    if spec.range is not None:
        low, high = (dims.evaluate(end, sizes) for end in (spec.range.low, spec.range.high))
        return rng.integers(low, high, shape, spec.dtype, endpoint=True)
    if given.dtype.kind == "f":
        return (rng.standard_normal(shape) * max(float(np.abs(given).max(initial=0.0)), 1.0)).astype(
            spec.dtype
        )
    if given.dtype.kind == "b" or set(np.unique(given).tolist()) <= {0, 1}:
        return rng.integers(0, 1, shape, endpoint=True).astype(spec.dtype)
    return rng.integers(given.min(), given.max(), shape, spec.dtype, endpoint=True)
