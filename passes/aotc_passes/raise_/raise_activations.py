"""Recognise activation functions by the numbers that they give."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.errors import RefusedError
from aotc.ir.constants import new_initializer
from aotc.ir.prefix import FLOATS
from aotc.rewrite import Context, Pass, PassResult
from aotc.rewrite.cone import SOURCE, Array, Cone, evaluate, run_operator
from aotc_passes.raise_._functions import NAMES, PROBES, Activation, candidates, sampled
from aotc_passes.raise_._raising import Raising, Verdict

_ARITHMETIC = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Neg", "Sum", "Pow", "Sqrt", "Reciprocal", "Identity", "Sign", "Cast"),
        *("Not", "And", "Or"),
    }
)
_CURVES = NAMES | {
    *("Softplus", "Celu", "Abs", "Erf", "Exp", "Log", "Max", "Min", "PRelu", "Where"),
    *("Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
}
_ULPS = 4
_WIDEST = 20.0
"""An error of x times a curve grows with x, up to where all curves of the table are straight."""
_NEIGHBOURS = 16
_EPS64 = float(np.finfo(np.float64).eps)
_NEAR = 5e-3
"""An operator that is less than this off is what the region may have been meant to be."""


@dataclasses.dataclass(frozen=True)
class RaiseActivations(Pass):
    """Turn any spelling of an activation function into the operator that ONNX has for it.

    Rewrites:
        Elementwise operators that compute a value from one other value and constant numbers become Gelu
        (either form), Swish, HardSwish, Mish, Softsign, Sigmoid, Tanh, Relu, LeakyRelu, Elu, Selu,
        HardSigmoid or Clip, where they give the numbers that the operator gives. Parameters such as
        Swish's alpha are read off the function. The largest region that is an activation counts. Works in
        subgraphs.

    Requires:
        Constants as initialisers: fold-constants runs before.

    Refuses when:
        The nearest operator gives other numbers, infinities or NaN somewhere; an inner value of the region is
        used elsewhere or is an output of the graph, so that nothing would be saved. Types other than float32
        and float16 are left alone.

    Numerics:
        Spelling and operator are run at some 2,000 numbers: the whole range of the type, zeros, subnormals,
        infinities, NaN, and the region's constants with their neighbours. What counts is the spelling in
        float64. The operator must be within 4 ulps of the result or of x (up to 20), or as near as the
        spelling in its own type is around there. Infinities and NaN must be the same, except where float32
        overflows only on the way and float64 does not. The sign of a zero is not looked at.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        return _Raising(model, context).run()


class _Raising(Raising[Activation]):
    hallmarks = _CURVES
    inside = ends = _ARITHMETIC | _CURVES

    @override
    def key(self, cone: Cone) -> object:
        return cone.key() if _may_be_one(cone) else None

    @override
    def judge(self, cone: Cone) -> Verdict[Activation] | None:
        assert cone.source.dtype is not None
        grid = _grid(cone, cone.source.dtype.numpy())
        try:
            own, wide = (a.reshape(-1) for a in evaluate(cone, self.oracle, self.opsets, {SOURCE: grid}))
        except RefusedError:
            return None
        if own.shape != grid.shape:
            return None
        finite = np.isfinite(grid)
        found = candidates(sampled(grid[finite], wide[finite]), self.opsets[""])
        judged = [self._compare(activation, grid, own, wide) for activation in found]
        judged.sort(key=lambda pair: pair[0])
        same = [verdict for _, verdict in judged if verdict.reason is None]
        near = [verdict for off, verdict in judged if off < _NEAR]
        if len(cone.nodes) == 1:  # is an operator already, or would be one that it is not meant to be
            same, near = [verdict for verdict in same if verdict.found.op_type != cone.end.op_type], []
        return next(iter(same or near), None)

    @override
    def replace(self, cone: Cone, found: Activation) -> None:
        graph, dtype, bounds = cone.end.graph, cone.source.dtype, []
        assert graph is not None
        assert dtype is not None
        for stem, number in zip(("min", "max"), found.bounds, strict=False):
            tensor = ir.tensor(np.asarray(number, dtype.numpy()))
            bounds.append(new_initializer(self.names.fresh(f"{cone.value.name}_{stem}"), tensor, []))
            graph.initializers.add(bounds[-1])
        cone.replace_by(found.node(cone.source, bounds))

    def _compare(
        self, activation: Activation, grid: Array, own: Array, wide: Array
    ) -> tuple[float, Verdict[Activation]]:
        """Return how far ``activation`` is off at most, relative to 1 or the result, and the verdict."""
        numbers = [grid, *(np.asarray(bound, grid.dtype) for bound in activation.bounds)]
        node = activation.node(ir.Value(), [ir.Value() for _ in activation.bounds])
        try:
            got = run_operator(node, self.oracle, self.opsets, numbers)
        except RefusedError as refused:
            return np.inf, Verdict(activation, f"the oracle cannot run it: {refused.message}")
        with np.errstate(over="ignore"):
            narrow = wide.astype(grid.dtype)
        other = (_class(own) == _class(narrow)) & (_class(got) != _class(own))
        error = _distance(got, wide)
        excess = error - _allowed(grid, own, wide)
        known = np.where(np.isfinite(wide), np.abs(wide), 0)
        off = float((error / np.maximum(known, 1.0)).max())
        if not (other.any() or (excess > 0).any()):
            return off, Verdict(activation)
        worst = int(np.argmax(other if other.any() else excess))
        reason = f"it gives {got[worst]:.6g} at {grid[worst]:.6g}, and the region {own[worst]:.6g}"
        return off, Verdict(activation, f"{reason} ({off:.1g} apart at most where both are finite)")


def _may_be_one(cone: Cone) -> bool:
    """Return whether ``cone`` is a curve of one number, and not an operator of the table already."""
    kinds = {node.op_type for node in cone.nodes}
    if cone.parameters or cone.source.dtype != cone.value.dtype or kinds <= _ARITHMETIC:
        return False
    if len(cone.nodes) == 1 and cone.end.op_type in NAMES - {"Clip"}:
        return False
    if {node.outputs[0].dtype for node in cone.nodes} & FLOATS != {cone.source.dtype}:
        return False  # rounding to a narrower type is no part of a curve
    most = cone.source.shape.rank() if cone.source.shape is not None else 0
    return all(array.size == 1 and array.ndim <= most for array in cone.constants())


def _grid(cone: Cone, dtype: np.dtype[np.floating]) -> Array:
    """Return the numbers to look at: the whole range, densely around 0, and the constants of ``cone``."""
    own = [float(array.reshape(-1)[0]) for array in cone.constants() if array.dtype.kind == "f"]
    numbers = [*own, *(a / b for a in own for b in own if b)][:60]
    with np.errstate(over="ignore"):
        kinks = np.asarray([*numbers, *np.negative(numbers)]).astype(dtype)
        above, below = [kinks], [kinks]
        for _ in range(3):
            above.append(np.nextafter(above[-1], dtype.type(np.inf)))
            below.append(np.nextafter(below[-1], dtype.type(-np.inf)))
    return np.unique(np.concatenate([_base(dtype), *above, *below]))


@functools.cache
def _base(dtype: np.dtype[np.floating]) -> Array:
    powers = np.ldexp(1.0, np.arange(-149, 128))
    sizes = np.concatenate([powers, 1.37 * powers, [float(np.finfo(dtype).max), 3e38, np.inf]])
    line = np.concatenate([PROBES, np.linspace(-20, 20, 801), [np.nan, 0.0]])
    with np.errstate(over="ignore"):
        return np.concatenate([sizes, -sizes, line]).astype(dtype)


def _distance(values: Array, wide: Array) -> Array:
    """Return how far ``values`` are from ``wide``; 0 where one of them is not finite."""
    both = np.isfinite(values) & np.isfinite(wide)
    return np.abs(np.where(both, values, 0).astype(np.float64) - np.where(both, wide, 0))


def _allowed(grid: Array, own: Array, wide: Array) -> Array:
    """Return how far an operator may be from ``wide``: some ulps, or twice the spelling's own error there."""
    info = np.finfo(grid.dtype)
    near = np.pad(_distance(own, wide), _NEIGHBOURS)
    spelled = np.lib.stride_tricks.sliding_window_view(near, 2 * _NEIGHBOURS + 1).max(-1)
    size = np.where(np.isfinite(wide), np.abs(wide), 0)
    scale = np.maximum(size, np.clip(np.abs(np.nan_to_num(grid.astype(np.float64))), 0, _WIDEST))
    with np.errstate(over="ignore"):
        return np.asarray(_ULPS * (float(info.eps) * scale + float(info.tiny) + _EPS64) + 2 * spelled)


def _class(values: Array) -> Array:
    """0 for finite, 1 for NaN, 2 and 3 for the infinities."""
    return np.where(np.isfinite(values), 0, np.where(np.isnan(values), 1, np.where(values > 0, 2, 3)))
