"""From a softmax back to the product of queries and keys: what happens to the scores on the way."""

from __future__ import annotations

import dataclasses
import math

import onnx_ir as ir

from aotc.ir.walk import is_op
from aotc_passes.raise_._operands import Product, by_number, product_of, scalar

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


@dataclasses.dataclass(frozen=True)
class Bias:
    """``factor * value`` is added to the scores, which have ``rank`` axes there."""

    value: ir.Value
    factor: float
    rank: int


@dataclasses.dataclass(frozen=True)
class Choice:
    """Scores stay where ``value`` is ``keep``, and become ``fill`` elsewhere.

    ``last``: nothing is added to them afterwards.
    """

    value: ir.Value
    rank: int
    keep: bool
    fill: float
    last: bool


Piece = Bias | Choice
_NEAR = 24


@dataclasses.dataclass(frozen=True)
class Scores:
    """What a softmax takes: ``scale * Q K^T`` with a mask, and before it a softcap, 0 for none.

    The softcap makes ``softcap * tanh(x / softcap)`` of a score x.
    ``shape`` is (batch ..., queries, keys), where the scores have most batch axes on the way, but for those
    that split the batch of a product with heads into windows.
    """

    product: Product
    shape: ir.Shape
    scale: float
    softcap: float
    pieces: tuple[Piece, ...]


@dataclasses.dataclass(frozen=True)
class _Obstacle:
    """What the way back does not go through."""

    node: ir.Node


@dataclasses.dataclass(frozen=True)
class _Step:
    """What is known on the way back: the factor is of everything that lies further back."""

    factor: float
    softcap: float
    pieces: tuple[Piece, ...]
    shapes: tuple[ir.Shape, ...]


_Found = Scores | str | _Obstacle | None


def scores_of(value: ir.Value) -> Scores | str | None:
    """Return how the scores ``value`` come from a product, or why not; None if they come from none."""
    if value.shape is None:
        return None
    found = _back(value, _Step(1.0, 0.0, (), (value.shape,)))
    if isinstance(found, _Obstacle):
        return f"the scores come from {found.node.op_type}" if _is_behind_product(found.node) else None
    return found


def _is_behind_product(node: ir.Node) -> bool:
    """Return whether a product of two values that are not weights is near before ``node``."""
    pending, seen = [node], {node}
    while pending and len(seen) < _NEAR:
        current = pending.pop(0)
        product = product_of(current)
        if product is not None and not any(
            each.value.is_initializer() for each in (product.left, product.right)
        ):
            return True
        new = [p for value in current.inputs if value is not None and (p := value.producer()) is not None]
        pending.extend(each for each in new if each not in seen)
        seen.update(new)
    return False


def _back(value: ir.Value, step: _Step) -> _Found:
    node = value.producer()
    if node is None:
        return None
    if (product := product_of(node)) is not None:
        reason = _why_not_mine(value)
        return reason or _ended(product, step)
    rule = _RULES.get(node.op_type) if not node.domain else None
    found = (rule and rule(node, step)) or _Obstacle(node)
    return (_why_not_mine(value) or found) if isinstance(found, Scores) else found


def _why_not_mine(value: ir.Value) -> str | None:
    if value.is_graph_output():
        return f"the scores '{value.name}' are an output of the graph"
    if len(value.uses()) > 1:
        return f"the scores '{value.name}' are used {len(value.uses())} times"
    return None


def _ended(product: Product, step: _Step) -> Scores | str:
    factor = step.factor
    if not (math.isfinite(factor) and factor > 0):
        return f"the scores are scaled by {factor:g}"
    if step.softcap < 0:
        return f"the softcap is {step.softcap:g}"
    scale = factor * step.softcap if step.softcap else factor
    most = max(4, len(product.axes))
    shape = max((each for each in step.shapes if len(each) <= most), key=len, default=None)
    if shape is None:
        return "the batch axes of the scores are not known"
    return Scores(product, shape, scale, step.softcap, step.pieces)


def _scaled(node: ir.Node, step: _Step) -> _Found:
    found = by_number(node)
    if found is None or not _same_shape(found[0].shape, node.outputs[0].shape):
        return None
    return _back(found[0], dataclasses.replace(step, factor=step.factor * found[1]))


def _added(node: ir.Node, step: _Step) -> _Found:
    left, right = node.inputs
    assert left is not None
    assert right is not None
    sign = -1.0 if is_op(node, "Sub") else 1.0
    reasons = []
    for scores, other, factor in ((left, right, sign * step.factor), (right, left, step.factor)):
        if sign < 0 and scores is right:
            continue
        if _same_shape(scores.shape, node.outputs[0].shape):
            found = _back(scores, _masked(step, Bias(other, factor, len(scores.shape or ())), scores))
            if isinstance(found, Scores):
                return found
            reasons.append(found)
    return next((reason for reason in reasons if isinstance(reason, str)), None)


def _chosen(node: ir.Node, step: _Step) -> _Found:
    condition, kept, other = node.inputs
    assert condition is not None
    for scores, fill, keep in ((kept, scalar(other), True), (other, scalar(kept), False)):
        if fill is not None and scores is not None and _same_shape(scores.shape, node.outputs[0].shape):
            piece = Choice(
                condition,
                len(scores.shape or ()),
                keep,
                fill * step.factor,
                last=not any(isinstance(each, Bias) for each in step.pieces),
            )
            return _back(scores, _masked(step, piece, scores))
    return None


def _masked(step: _Step, piece: Piece, scores: ir.Value) -> _Step:
    assert scores.shape is not None
    return dataclasses.replace(step, pieces=(*step.pieces, piece), shapes=(*step.shapes, scores.shape))


def _capped(node: ir.Node, step: _Step) -> _Found:
    source = node.inputs[0]
    assert source is not None
    if step.softcap:
        return None
    found = _back(source, dataclasses.replace(step, factor=1.0, softcap=step.factor))
    if isinstance(found, Scores) and found.pieces != step.pieces:
        return "the mask is added before the softcap"
    return found


def _cast(node: ir.Node, step: _Step) -> _Found:
    source = node.inputs[0]
    assert source is not None
    if source.dtype in _FLOATS and source.dtype == node.outputs[0].dtype:
        return _back(source, step)
    return None


def _regrouped(node: ir.Node, step: _Step) -> _Found:
    source = node.inputs[0]
    if source is None or source.shape is None or not regroups(node):
        return None
    return _back(source, dataclasses.replace(step, shapes=(*step.shapes, source.shape)))


def regroups(node: ir.Node) -> bool:
    """Return whether ``node`` is a Reshape that splits or joins batch axes alone."""
    source = node.inputs[0] if is_op(node, "Reshape") else None
    before, after = source.shape if source is not None else None, node.outputs[0].shape
    if before is None or after is None or {len(before), len(after)} not in ({3, 4}, {4, 5}):
        return False
    return _same_dims(list(before)[-2:], list(after)[-2:])


def _same_shape(left: ir.Shape | None, right: ir.Shape | None) -> bool:
    return left is not None and right is not None and _same_dims(list(left), list(right))


def _same_dims(left: list[int | ir.SymbolicDim], right: list[int | ir.SymbolicDim]) -> bool:
    return len(left) == len(right) and all(same_dim(a, b) for a, b in zip(left, right, strict=True))


def same_dim(left: int | ir.SymbolicDim, right: int | ir.SymbolicDim) -> bool:
    """Return whether two dims are known to be the same."""
    if isinstance(left, int) or isinstance(right, int):
        return left == right
    return left.value is not None and left.value == right.value


_RULES = {
    "Mul": _scaled,
    "Div": _scaled,
    "Add": _added,
    "Sub": _added,
    "Where": _chosen,
    "Tanh": _capped,
    "Cast": _cast,
    "Reshape": _regrouped,
}
