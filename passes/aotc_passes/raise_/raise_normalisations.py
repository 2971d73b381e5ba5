"""Recognise normalisations of rows by the values that they give."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.errors import RefusedError
from aotc.ir.constants import constant, new_initializer, sources
from aotc.rewrite import Context, Pass, PassResult
from aotc.rewrite.cone import SOURCE, Array, Cone, evaluate, run_operator
from aotc_passes.raise_._moments import Normalisation, difference, read_off, rows
from aotc_passes.raise_._raising import FLOATS, Raising, Verdict

_REDUCTIONS = frozenset({"ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2"})
_ROOTS = frozenset({"Sqrt", "Pow", "ReduceL2"})
_ENDS = frozenset({"Add", "Sub", "Mul", "Div", "Cast"})
_OTHERS = frozenset({"Neg", "Reciprocal", "Identity", "Unsqueeze", "Max", "Clip", "Sum", "Abs"})
_MOST_ENTRIES = 1 << 18


@dataclasses.dataclass(frozen=True)
class RaiseNormalisations(Pass):
    """Turn any spelling of layer or RMS normalisation into the operator that ONNX has for it.

    Rewrites:
        Arithmetic and reductions that compute a value from one other value, and at most two vectors, become
        LayerNormalization or RMSNormalization, where they give the values that the operator gives. Epsilon is
        read off the values; the vectors, constant or not, become scale and bias. A scale that is missing is
        made of ones; what else is done with the result stays. The largest region counts. Casts to float32
        inside of a float16 region are what the operator does itself. Works in subgraphs.

    Requires:
        Constants as initialisers: fold-constants runs before. Known shapes.

    Refuses when:
        The normalised axes are not the last ones, or their size is not known; the region divides by something
        else than sqrt(mean square + epsilon), such as the deviation of a sample or sqrt(mean square) +
        epsilon; a vector does not have the shape of the normalised axes, or another type; an inner value of
        the region is used elsewhere or is an output of the graph, so that nothing would be saved. Types other
        than float32 and float16 are left alone.

    Numerics:
        Region and operator are run on rows of eleven kinds: spreads from 1e-4 to 1e3, means up to 100 times
        the spread, a peak, zeros, a constant. The operator must be as near to the region in float64 as
        rounding allows, or as the region itself is in its own type: a variance by ``mean(x**2) - mean(x)**2``
        loses digits that the operator keeps. Rows with infinities or NaN are not looked at.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        return _Raising(model, context).run()


class _Raising(Raising[Normalisation | str]):
    """``found`` is a text where a region only looks like a normalisation."""

    hallmarks = _REDUCTIONS
    ends = _ENDS
    inside = _ENDS | _ROOTS | _REDUCTIONS | _OTHERS

    def __init__(self, model: ir.Model, context: Context) -> None:
        super().__init__(model, context)
        self._ones: dict[object, ir.Value] = {}

    @override
    def is_parameter(self, value: ir.Value, rank: int) -> bool:
        if value.dtype not in FLOATS or value.shape is None or not value.shape.is_static():
            return False
        if constant(value) is not None:
            return math.prod(value.shape.numpy()) > 1
        return 0 < value.shape.rank() < rank

    @override
    def key(self, cone: Cone) -> object:
        axes = _axes(cone)
        if not axes or len(cone.parameters) > 2 or not _is_plain(cone):
            return None
        shapes = [
            (value.name, str(value.dtype), str(value.shape)) for value in (cone.source, *cone.parameters)
        ]
        return cone.key(), str(shapes) if _why_not(cone, axes) else str([shape[1:] for shape in shapes])

    @override
    def judge(self, cone: Cone) -> Verdict[Normalisation | str] | None:
        axes = _axes(cone)
        if (reason := _why_not(cone, axes)) is not None:
            return Verdict("a normalisation", reason)
        assert cone.source.dtype is not None
        assert cone.source.shape is not None
        rng, sizes = np.random.default_rng(1), _sizes(cone.source, len(axes))
        x = rows(cone.source.shape.rank(), sizes, cone.source.dtype.numpy())
        shapes = [value.shape.numpy() if value.shape else () for value in cone.parameters]
        vectors = [rng.uniform(0.5, 2, shape).astype(x.dtype) for shape in shapes]
        feeds = {SOURCE: x} | {f"p{index}": array for index, array in enumerate(vectors)}
        try:
            own, wide = evaluate(cone, self.oracle, self.opsets, feeds)
        except RefusedError:
            return None
        if wide.shape != x.shape or own.dtype != x.dtype:
            return None
        found, instead = read_off(x, wide, vectors, axes[0])
        judged = [self._compare(each, x, own, wide, vectors) for each in found]
        same = [verdict for verdict in judged if verdict.reason is None]
        other: list[Verdict[Normalisation | str]] = [Verdict("a normalisation", instead)] if instead else []
        return next(iter(same or judged or other), None)

    @override
    def replace(self, cone: Cone, found: Normalisation | str) -> None:
        assert isinstance(found, Normalisation)
        sizes = _sizes(cone.source, -found.axis)
        scale, bias = (
            self._vector(cone, cone.parameters[index], sizes) if index is not None else None
            for index in (found.scale, found.bias)
        )
        cone.replace_by(found.node(cone.source, scale or self._made_of_ones(cone, sizes), bias))

    def _compare(
        self, found: Normalisation, x: Array, own: Array, wide: Array, vectors: list[Array]
    ) -> Verdict[Normalisation | str]:
        sizes = x.shape[found.axis :]
        scale = vectors[found.scale].reshape(sizes) if found.scale is not None else np.ones(sizes, x.dtype)
        bias = [vectors[found.bias].reshape(sizes)] if found.bias is not None else []
        node = found.node(ir.Value(), ir.Value(), ir.Value() if bias else None)
        try:
            got = run_operator(node, self.oracle, self.opsets, [x, scale, *bias])
        except RefusedError as error:
            return Verdict(found, f"the oracle cannot run it: {error.message}")
        return Verdict(found, difference(got, own, wide, x, found.axis))

    def _vector(self, cone: Cone, value: ir.Value, sizes: tuple[int, ...]) -> ir.Value:
        """Return ``value`` in the shape ``sizes``: a constant may have more axes, of one entry."""
        tensor, graph = constant(value), cone.end.graph
        if tensor is None or tuple(tensor.shape.numpy()) == sizes:
            return value
        assert graph is not None
        reshaped = ir.Tensor(tensor.numpy().reshape(sizes), dtype=tensor.dtype)
        made = new_initializer(self.names.fresh(f"{value.name}_vector"), reshaped, sources([value]))
        graph.initializers.add(made)
        return made

    def _made_of_ones(self, cone: Cone, sizes: tuple[int, ...]) -> ir.Value:
        """Return a scale of ones, which a graph has once for each shape and type."""
        graph, dtype = cone.end.graph, cone.source.dtype
        assert graph is not None
        assert dtype is not None
        key = graph, sizes, dtype
        if key not in self._ones:
            tensor = ir.Tensor(np.ones(sizes, dtype.numpy()), dtype=dtype)
            self._ones[key] = new_initializer(self.names.fresh("ones"), tensor, [])
            graph.initializers.add(self._ones[key])
        return self._ones[key]


def _axes(cone: Cone) -> tuple[int, ...]:
    """Return the axes that all reductions reduce, counted from the end; none if there is no one answer."""
    kinds = {node.op_type for node in cone.nodes}
    if cone.source.shape is None or not (kinds & _ROOTS and kinds & _REDUCTIONS):
        return ()
    rank = cone.source.shape.rank()
    found = {_reduced(node, rank) for node in cone.nodes if node.op_type in _REDUCTIONS}
    return found.pop() if len(found) == 1 else ()


def _reduced(node: ir.Node, rank: int) -> tuple[int, ...]:
    tensor = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if tensor is None or not rank:
        return ()
    return tuple(sorted((int(axis) % rank) - rank for axis in tensor.numpy().reshape(-1)))


def _is_plain(cone: Cone) -> bool:
    """Return whether the region keeps one type of floats, or is float16 with float32 inside."""
    source, value = cone.source.dtype, cone.value.dtype
    inner = {node.outputs[0].dtype for node in cone.nodes}
    return source in FLOATS and source == value and inner <= {source, ir.DataType.FLOAT}


def _sizes(value: ir.Value, count: int) -> tuple[Any, ...]:
    assert value.shape is not None
    return tuple(value.shape)[-count:]


def _why_not(cone: Cone, axes: tuple[int, ...]) -> str | None:
    """Return what of types and shapes keeps ``cone`` from being a normalisation over ``axes``."""
    source = cone.source
    if axes != tuple(range(-len(axes), 0)) or source.shape is None or len(axes) >= source.shape.rank():
        return f"the axes {list(axes)} of '{source.name}' are not its last ones, behind others"
    sizes = _sizes(source, len(axes))
    if not all(isinstance(size, int) for size in sizes):
        return f"the size of the axes {list(axes)} of '{source.name}' is not known"
    if not 1 < math.prod(sizes) <= _MOST_ENTRIES:
        return f"rows of {math.prod(sizes)} entries are not looked at"
    for value in cone.parameters:
        shape = tuple(value.shape.numpy()) if value.shape else ()
        own = shape[-len(sizes) :] if constant(value) is not None else shape
        if own != sizes or math.prod(shape) != math.prod(sizes):
            return f"'{value.name}' has the shape {list(shape)}, the normalised axes {list(sizes)}"
        if value.dtype != source.dtype:
            return f"'{value.name}' is {value.dtype}, and '{source.name}' {source.dtype}"
    return None
