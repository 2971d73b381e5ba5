"""The masks of an attention as one input of the standard operator, and what is known of them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from aotc.ir.builder import Builder
from aotc.ir.intervals import interval
from aotc.oracle import Oracle
from aotc_passes.raise_._heads import Heads, reshaped
from aotc_passes.raise_._operands import Operand
from aotc_passes.raise_._scores import Bias, Choice, Piece, Scores, same_dim
from aotc_passes.raise_._sizes import Array, evaluated

_FAR = -1e9
"""Scores are taken to stay above: what is masked by a number this low counts for nothing beside another."""
_MILD = -1e5
"""A bias that stays above leaves every score well above ``_FAR``."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is proven of one piece.

    ``neutral``: it changes no score. ``causal``: it masks the keys behind each query and does nothing else.
    ``open``: it leaves each row a key. ``mild``: it adds numbers above ``_MILD``. ``finite``: it makes no
    score -inf.
    """

    neutral: bool = False
    causal: bool = False
    open: bool = False
    mild: bool = False
    finite: bool = False


@dataclasses.dataclass(frozen=True)
class Mask:
    """What the mask input of Attention is made of.

    ``added`` are added to the scores, a very low number takes the place of their sum where not all of
    ``lowered`` keep the score, and -inf where not all of ``kept`` do. ``finite``: ``added`` make no score
    -inf. ``check_rows``: a row without a key is not excluded, and gives NaN.
    """

    dtype: ir.DataType
    is_causal: bool = False
    kept: tuple[Choice, ...] = ()
    added: tuple[Bias, ...] = ()
    lowered: tuple[Choice, ...] = ()
    finite: bool = False
    check_rows: bool = False
    queries: Operand | None = None
    rank: int = 4
    heads: int | ir.SymbolicDim = 1

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to give to the operator."""
        return not (self.kept or self.added or self.lowered)

    def build(self, build: Builder) -> tuple[ir.Value | None, ir.Value | None]:
        """Make the nodes of the mask; return it, and which rows have a key where that is to be checked."""
        if self.is_empty:
            return None, None
        mask = _all(build, "Add", [self._term(build, piece) for piece in self.added])
        if mask is not None:
            mask = self._lifted(build, mask)
        if (lowered := _all(build, "And", [self._truth(build, piece) for piece in self.lowered])) is not None:
            mask = self._where(build, lowered, mask, self._low)
        if (kept := _all(build, "And", [self._truth(build, piece) for piece in self.kept])) is not None:
            mask = kept if mask is None else self._where(build, kept, mask, -math.inf)
        assert mask is not None
        return mask, self._rows(build, mask) if self.check_rows else None

    def _term(self, build: Builder, piece: Bias) -> ir.Value:
        value = self._placed(build, piece)
        if piece.factor == 1:
            return value
        factor = build.constant(np.array(piece.factor, self.dtype.numpy()), "factor")
        return build.like("Mul", [value, factor], value.shape)

    def _truth(self, build: Builder, piece: Choice) -> ir.Value:
        value = self._placed(build, piece)
        return value if piece.keep else build.like("Not", [value], value.shape)

    def _placed(self, build: Builder, piece: Piece) -> ir.Value:
        """Give a mask that has batch axes the two of Attention."""
        value, shape = piece.value, list(piece.value.shape or ())
        if len(shape) < 3 or len(shape) == self.rank == 4:
            return value
        if len(shape) == 3 and self.rank == 3:
            return build.like("Unsqueeze", [value, build.constant(np.array([0]), "axes")], [1, *shape])
        if len(shape) == 3 and piece.rank == 3 and shape[0] != 1:
            return reshaped(build, value, [-1, self.heads], 1)
        if piece.rank == 5 and self.rank == 4 and len(shape) > 3:
            return self._windowed(build, value)
        if len(shape) == 5:
            return build.like(
                "Squeeze", [value, build.constant(np.array([2]), "axes")], [*shape[:2], *shape[3:]]
            )
        return value

    def _windowed(self, build: Builder, value: ir.Value) -> ir.Value:
        """Repeat the masks of the windows of one image, (1, windows, 1, n, m), for all of the batch."""
        assert self.queries is not None
        shape, int64, axis = list(value.shape or ()), ir.DataType.INT64, self.queries.axes.index("0")
        if len(shape) == 5:
            value = build.like("Squeeze", [value, build.constant(np.array([0]), "axes")], shape[1:])
        place = {"start": axis, "end": axis + 1}
        both = build.op("Shape", [self.queries.value], place, dtype=int64, shape=[1])
        windows = build.op("Shape", [value], {"start": 0, "end": 1}, dtype=int64, shape=[1])
        images = build.like("Div", [both, windows], [1])
        once = build.constant(np.array([1, 1, 1]), "once")
        repeats = build.op("Concat", [images, once], {"axis": 0}, dtype=int64, shape=[4])
        return build.like("Tile", [value, repeats], [ir.SymbolicDim(None), *shape[-3:]])

    @property
    def _low(self) -> float:
        """Return half of the lowest number: as low, but ONNX Runtime takes the lowest itself for -inf."""
        return float(np.finfo(self.dtype.numpy()).min) / 2

    def _lifted(self, build: Builder, mask: ir.Value) -> ir.Value:
        """Raise entries that may be the lowest number to half of it."""
        if interval(mask)[0] >= self._low:
            return mask
        low = build.constant(np.array(self._low, self.dtype.numpy()), "low")
        assert mask.shape is not None
        if self.finite:
            return build.like("Max", [mask, low], mask.shape)
        lowest = build.constant(np.array(2 * self._low, self.dtype.numpy()), "lowest")
        test = build.op("Equal", [mask, lowest], dtype=ir.DataType.BOOL, shape=mask.shape)
        return build.op("Where", [test, low, mask], dtype=self.dtype, shape=mask.shape)

    def _where(self, build: Builder, kept: ir.Value, value: ir.Value | None, fill: float) -> ir.Value:
        if value is None:
            value = build.constant(np.array(0, self.dtype.numpy()), "zero")
        other = build.constant(np.array(fill, self.dtype.numpy()), "fill")
        return build.op("Where", [kept, value, other], dtype=self.dtype, shape=_broadcast(kept, value))

    def _rows(self, build: Builder, mask: ir.Value) -> ir.Value:
        """Return, of shape (..., rows, 1), whether the mask leaves the row a key."""
        assert mask.shape is not None
        shape = [*list(mask.shape)[:-1], 1]
        if mask.dtype == ir.DataType.BOOL:
            mask = build.op(
                "Cast", [mask], {"to": ir.DataType.FLOAT}, dtype=ir.DataType.FLOAT, shape=mask.shape
            )
            least = build.constant(np.array(0, np.float32), "no_key")
        else:
            least = build.constant(np.array(-math.inf, self.dtype.numpy()), "no_key")
        last = build.constant(np.array([-1]), "keys")
        best = build.like("ReduceMax", [mask, last], shape)
        return build.op("Greater", [best, least], dtype=ir.DataType.BOOL, shape=shape)


def mask_of(scores: Scores, heads: Heads, model: ir.Model, oracle: Oracle, *, zero_rows: bool) -> Mask | str:
    """Return the mask of an attention, or why the operator cannot take it.

    Args:
        scores: With their masks.
        heads: The operands.
        model: The graph.
        oracle: Evaluates masks that depend on sizes alone.
        zero_rows: Rows without a key give 0, as the operator does.
    """
    dtype = heads.queries.operand.value.dtype
    if dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16):
        return f"there is no kernel for queries of {dtype}"
    facts = [(piece, _facts(piece, model, oracle)) for piece in scores.pieces]
    facts = [(piece, fact) for piece, fact in facts if not fact.neutral]
    reasons = (_why_not(piece, fact, scores, heads.batch, dtype) for piece, fact in facts)
    if reason := next(filter(None, reasons), None):
        return reason
    heads_axis = list(scores.shape)[-3] if len(scores.shape) > 2 else 1
    mask = dataclasses.replace(
        _combined(facts, dtype), queries=heads.queries.operand, rank=len(scores.shape), heads=heads_axis
    )
    if mask.lowered and len(facts) > 1 and not _keeps_uniform(mask, facts):
        return "several masks together may leave a row without a key, whose weights would be others"
    return dataclasses.replace(mask, check_rows=mask.check_rows and not zero_rows)


def _combined(facts: Sequence[tuple[Piece, Facts]], dtype: ir.DataType) -> Mask:
    causal = [piece for piece, fact in facts if fact.causal]
    others = [(piece, fact) for piece, fact in facts if not fact.causal]
    added = tuple(piece for piece, _ in others if isinstance(piece, Bias))
    if causal and all(isinstance(piece, Bias) and fact.mild for piece, fact in others):
        return Mask(dtype, is_causal=True, added=added, finite=True)
    pieces = [piece for piece, _ in facts]
    # One choice that leaves each row a key, beside biases that close none, leaves each row a key.
    closing = [fact for piece, fact in facts if not (isinstance(piece, Bias) and fact.mild)]
    is_open = not closing or (len(closing) == 1 and closing[0].open)
    choices = [piece for piece in pieces if isinstance(piece, Choice)]
    kept = tuple(piece for piece in choices if piece.fill == -math.inf or is_open)
    lowered = tuple(piece for piece in choices if piece not in kept)
    finite = all(fact.finite for piece, fact in facts if isinstance(piece, Bias))
    return Mask(
        dtype,
        kept=kept,
        added=tuple(piece for piece in pieces if isinstance(piece, Bias)),
        lowered=lowered,
        finite=finite,
        check_rows=not is_open and (bool(kept) or not finite),
    )


def _keeps_uniform(mask: Mask, facts: Sequence[tuple[Piece, Facts]]) -> bool:
    """Return whether a row that is masked whole by a number gets equal weights, as eager gives it."""
    fills = {piece.fill for piece in mask.lowered}
    if all(piece.last for piece in mask.lowered):
        return len(fills) == 1 and not mask.kept
    others = [fact for piece, fact in facts if piece not in mask.lowered]
    return (
        len(mask.lowered) == 1 and max(fills) < -1e30 and all(fact.mild for fact in others) and not mask.kept
    )


def _why_not(piece: Piece, fact: Facts, scores: Scores, batch: str, dtype: ir.DataType) -> str | None:
    value, name = piece.value, piece.value.name
    if value.shape is None:
        return f"the shape of the mask '{name}' is not known"
    if isinstance(piece, Choice) and piece.fill > _FAR:
        return f"masked scores become {piece.fill:g}, which scores may reach"
    if isinstance(piece, Bias) and value.dtype != dtype:
        return f"the mask '{name}' is {value.dtype}, queries are {dtype}"
    if fact.causal:
        return None
    if reason := _why_not_placed(piece, list(value.shape), scores, batch):
        return f"the mask '{name}' {reason}"
    if len(value.shape) < 2 or not same_dim(value.shape[-1], scores.shape[-1]):
        return f"the mask '{name}' does not have an entry for each key"
    return None


def _why_not_placed(
    piece: Piece, shape: list[int | ir.SymbolicDim], scores: Scores, batch: str
) -> str | None:
    if batch == "joined" and len(shape) > 2:
        return "has its own batch axes beside joined ones"
    if batch == "grouped" and len(shape) > 2 and (len(shape) < 5 or shape[1:3] != [1, 1]):
        return "has an axis for the groups of heads"
    if piece.rank == 5 and len(scores.shape) == 4:
        return "has windows of its own for each image" if len(shape) == 5 and shape[0] != 1 else None
    if len(shape) > len(scores.shape):
        return f"has {len(shape)} axes"
    return None


def _facts(piece: Piece, model: ir.Model, oracle: Oracle) -> Facts:
    if isinstance(piece, Bias) and piece.factor > 0:
        low = interval(piece.value)[0] * piece.factor
        fact = Facts(mild=low > _MILD, finite=low > -math.inf)
    else:
        fact = Facts()
    if (arrays := evaluated(piece.value, model, oracle)) is None:
        return fact
    if isinstance(piece, Choice):
        kept = [array.astype(bool) == piece.keep for array in arrays]
        return Facts(
            neutral=all(array.all() for array in kept),
            causal=_is_square(piece) and all(_is_lower(array) for array in kept),
            open=all(array.any(-1).all() for array in kept),
        )
    with np.errstate(all="ignore"):
        added = [array.astype(np.float64) * piece.factor for array in arrays]
    return Facts(
        neutral=all((array == 0).all() for array in added),
        causal=_is_square(piece) and all(_is_causal_bias(array) for array in added),
        open=all((array > _MILD).any(-1).all() for array in added),
        mild=all((array > _MILD).all() for array in added),
        finite=all(np.isfinite(array).all() for array in added),
    )


def _is_square(piece: Piece) -> bool:
    shape = piece.value.shape
    return shape is not None and len(shape) >= 2 and same_dim(shape[-1], shape[-2])


def _is_lower(kept: Array) -> bool:
    """Return whether all matrices of ``kept`` are true up to the diagonal and false above."""
    lower: Array = np.tri(*kept.shape[-2:]) > 0
    return bool((kept == lower).all())


def _is_causal_bias(added: Array) -> bool:
    """Return whether 0 is added up to the diagonal, and a very low number above."""
    lower: Array = np.tri(*added.shape[-2:]) > 0
    return bool((added[..., lower] == 0).all() and (added[..., ~lower] <= _FAR).all())


def _all(build: Builder, op_type: str, values: Sequence[ir.Value]) -> ir.Value | None:
    """Return all ``values`` joined by an operator of two; None if there are none."""
    if not values:
        return None
    return functools.reduce(lambda a, b: build.like(op_type, [a, b], _broadcast(a, b)), values)


def _broadcast(left: ir.Value, right: ir.Value) -> list[int | ir.SymbolicDim]:
    assert left.shape is not None
    assert right.shape is not None
    rank = max(len(left.shape), len(right.shape))
    padded = [[*[1] * (rank - len(shape)), *shape] for shape in (left.shape, right.shape)]
    return [b if a == 1 else a for a, b in zip(*padded, strict=True)]
