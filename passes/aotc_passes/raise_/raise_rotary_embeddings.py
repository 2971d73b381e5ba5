"""Recognise rotary position embeddings by the values that they give."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.errors import RefusedError
from aotc.ir.constants import constant
from aotc.rewrite import Context, Pass, PassResult
from aotc.rewrite.cone import SOURCE, Cone, evaluate, run_operator
from aotc_passes.raise_._raising import FLOATS, Raising, Verdict
from aotc_passes.raise_._tables import constant_form, double, holds_doubled, operator_form

_MOVES = frozenset(
    {"Slice", "Split", "Concat", "Gather", "Unsqueeze", "Squeeze", "Reshape", "Shape", "Identity"}
)
_ULPS = 4
_BATCH, _HEADS, _LENGTH = 2, 3, 5
"""Sizes to run with where they are not known."""
_MOST_ENTRIES = 1 << 20


@dataclasses.dataclass(frozen=True)
class _Rotary:
    """The operator on the first ``entries``; ``cosine`` and ``sine`` are the numbers of parameters.

    In ``doubled`` ones every entry occurs twice.
    """

    interleaved: bool
    doubled: bool
    cosine: int
    sine: int
    entries: int
    whole: bool

    def __str__(self) -> str:
        return "RotaryEmbedding" + "(interleaved)" * self.interleaved

    def node(self, source: ir.Value, cosine: ir.Value, sine: ir.Value) -> ir.Node:
        """Return a node of it on ``source``."""
        attributes = [ir.AttrInt64("interleaved", int(self.interleaved))]
        if not self.whole:
            attributes.append(ir.AttrInt64("rotary_embedding_dim", self.entries))
        return ir.Node("", "RotaryEmbedding", [source, cosine, sine], attributes, num_outputs=1)


@dataclasses.dataclass(frozen=True)
class RaiseRotaryEmbeddings(Pass):
    """Turn any spelling of a rotary position embedding into RotaryEmbedding.

    Rewrites:
        What computes a value of four axes (batch, heads, sequence, entries) from another one and two values
        without heads becomes RotaryEmbedding, where it gives the values that the operator gives: halves or
        neighbours (interleaved) rotated, all entries or the first ones. Where every cosine and sine occurs
        twice the operator gets one half, which is cut out once for all layers.

    Requires:
        Constants as initialisers: fold-constants runs before. Known numbers of axes and entries.

    Refuses when:
        It is not proven that every cosine and sine occurs twice; sequence or batch of them are not those of
        the rotated value; an inner value of the region is used elsewhere or is an output of the graph. Types
        other than float32 and float16 are left alone, and so is the order (batch, sequence, heads, entries).

    Numerics:
        The same products and sums: within 4 ulps of the region in float64, or as near as the region is in its
        own type. That entries occur twice is proven on constants, or by running what computes them.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        return _Raising(model, context).run()


class _Raising(Raising[_Rotary]):
    hallmarks = frozenset({"Concat"})
    ends = frozenset({"Add", "Concat", "Reshape"})
    inside = _MOVES | {"Add", "Sub", "Mul", "Neg"}

    def __init__(self, model: ir.Model, context: Context) -> None:
        super().__init__(model, context)
        self._inputs = list(model.graph.inputs)
        self._halves: dict[object, ir.Value] = {}

    @override
    def is_parameter(self, value: ir.Value, rank: int) -> bool:
        """Return whether ``value`` may hold cosines or sines: it has no heads."""
        if value.shape is None or value.dtype not in FLOATS or rank != 4:
            return False
        dims = list(value.shape)
        without_heads = (
            len(dims) == 2 or (len(dims) == 3 and dims[0] == 1) or (len(dims) == 4 and dims[1] == 1)
        )
        return without_heads and _known(dims[-1], 1) > 1

    @override
    def stops_at(self, value: ir.Value, rank: int) -> bool:
        return self.is_parameter(value, rank)

    @override
    def key(self, cone: Cone) -> object:
        shape, kinds = cone.source.shape, {node.op_type for node in cone.nodes}
        if len(cone.parameters) != 2 or shape is None or shape.rank() != 4 or not {"Mul", "Concat"} <= kinds:
            return None
        if cone.value.dtype != cone.source.dtype or not _known(shape[3], 0):
            return None
        return cone.key(), str(shape), tuple(value.name for value in cone.parameters)

    @override
    def judge(self, cone: Cone) -> Verdict[_Rotary] | None:
        assert cone.source.shape is not None
        size = _known(cone.source.shape[3], 0)
        counts = {value.shape[-1] for value in cone.parameters if value.shape is not None}
        if len(counts) != 1 or math.prod(_sizes(cone.source)) > _MOST_ENTRIES:
            return None
        held = _known(counts.pop(), 0)
        for doubled, interleaved in itertools.product((True, False), repeat=2):
            entries = held if doubled else 2 * held
            if entries % 2 or entries > size:
                continue
            for cosine, sine in itertools.permutations(range(2)):
                found = _Rotary(interleaved, doubled, cosine, sine, entries, whole=entries == size)
                if self._is_equal(cone, found):
                    return Verdict(found, self._why_not(cone, found))
        return None

    @override
    def replace(self, cone: Cone, found: _Rotary) -> None:
        halves = (self._half(cone, cone.parameters[n], found) for n in (found.cosine, found.sine))
        cone.replace_by(found.node(cone.source, *halves))

    def _is_equal(self, cone: Cone, found: _Rotary) -> bool:
        assert cone.source.dtype is not None
        rng, dtype = np.random.default_rng(0), cone.source.dtype.numpy()
        x = rng.standard_normal(_sizes(cone.source)).astype(dtype)
        feeds, rows = {SOURCE: x}, []
        for index in (found.cosine, found.sine):
            sizes = (*_sizes(cone.parameters[index], x.shape)[:-1], found.entries // 2)
            half = rng.standard_normal(sizes).astype(dtype)
            feeds[f"p{index}"] = double(half, found.interleaved) if found.doubled else half
            flat = half.reshape(-1, *half.shape[-2:])
            rows.append(np.repeat(flat, len(x) // len(flat), 0))
        try:
            own, wide = evaluate(cone, self.oracle, self.opsets, feeds)
            node = found.node(ir.Value(), ir.Value(), ir.Value())
            got = run_operator(node, self.oracle, self.opsets, [x, *rows])
        except RefusedError:
            return False
        if wide.shape != got.shape:
            return False
        eps = float(np.finfo(dtype).eps)
        allowed = _ULPS * eps * max(1.0, float(np.abs(wide).max())) + 2 * np.abs(own - wide).max()
        return bool((np.abs(got - wide) <= allowed).all())

    def _why_not(self, cone: Cone, found: _Rotary) -> str | None:
        assert cone.source.shape is not None
        for value in cone.parameters:
            assert value.shape is not None
            if not _are_same(value.shape[-2], cone.source.shape[2]):
                return f"the sequence of '{value.name}' is not known to be that of '{cone.source.name}'"
            if value.graph is not cone.end.graph:
                return f"'{value.name}' is a value of an outer graph"
            if self._needs_batch(cone, value) and (_rows(value) != 1 or self._batch(cone) is None):
                return f"the rows of '{value.name}' are not known to be those of the batch"
            if found.doubled and not holds_doubled(value, found.interleaved, self.oracle, self.opsets):
                return f"it is not proven that every entry of '{value.name}' occurs twice"
        return None

    def _needs_batch(self, cone: Cone, value: ir.Value) -> bool:
        """Return whether the rows of ``value`` have to be repeated for the batch."""
        assert cone.source.shape is not None
        return not _are_same(_rows(value), cone.source.shape[0])

    def _batch(self, cone: Cone) -> tuple[ir.Value, int] | int | None:
        """Return the size of the batch of ``cone``, or an input of the graph, and its axis, of that size."""
        assert cone.source.shape is not None
        size = cone.source.shape[0]
        if isinstance(size, int) or size.value is None:
            return size if isinstance(size, int) else None
        axes = (
            (value, axis)
            for value in self._inputs
            for axis, dim in enumerate(value.shape or ())
            if dim == size
        )
        return next(axes, None)

    def _half(self, cone: Cone, value: ir.Value, found: _Rotary) -> ir.Value:
        batch = self._batch(cone) if self._needs_batch(cone, value) else None
        interleaved = found.interleaved if found.doubled else None
        key = value, interleaved, batch
        if key not in self._halves:
            if constant(value) is not None and not isinstance(batch, tuple):
                self._halves[key] = constant_form(value, interleaved, batch, self.names)
            else:
                self._halves[key] = operator_form(value, interleaved, batch, self.names)
        return self._halves[key]


def _rows(value: ir.Value) -> Any:
    """Return how many rows of all positions ``value`` has."""
    assert value.shape is not None
    return value.shape[0] if value.shape.rank() > 2 else 1


def _are_same(dim: Any, other: Any) -> bool:
    """Return whether two sizes are known to be equal; unknown ones equal nothing."""
    return bool(dim == other) and (isinstance(dim, int) or dim.value is not None)


def _known(dim: Any, otherwise: int) -> int:
    return dim if isinstance(dim, int) else otherwise


def _sizes(value: ir.Value, like: tuple[int, ...] = (_BATCH, _HEADS, _LENGTH, 0)) -> tuple[int, ...]:
    """Return the sizes to run ``value`` with: those of ``like`` where they are not known."""
    assert value.shape is not None
    dims = list(value.shape)
    wanted = {2: like[2:], 3: (like[0], *like[2:]), 4: like}[len(dims)]
    return tuple(_known(dim, size) for dim, size in zip(dims, wanted, strict=True))
