"""Queries, keys and values of an attention as (batch, heads, tokens, size), whatever batch axes they had."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from aotc.ir.builder import Builder
from aotc_passes.raise_._operands import Operand, Product, before_repeat, settled
from aotc_passes.raise_._scores import Scores, same_dim

Dim = int | ir.SymbolicDim


@dataclasses.dataclass(frozen=True)
class Form:
    """How an operand becomes one of rank 4: axes are ordered and added, then batch axes are joined or split.

    ``order`` names the axes, None for a new one of size 1. ``split`` heads are taken out of the first axis;
    ``joined`` batch axes from ``joined[0]`` to ``joined[1]`` become one of the given size (-1: not known).
    """

    operand: Operand
    order: tuple[str | None, ...]
    split: int = 0
    joined: tuple[int, int, int] | None = None

    def build(self, build: Builder) -> ir.Value:
        """Make the nodes that bring the operand into this form, and return their result."""
        value = _ordered(build, self.operand, self.order)
        if self.split:
            return reshaped(build, value, [-1, self.split], 1)
        if self.joined is not None:
            first, last, size = self.joined
            return reshaped(build, value, [size], last, keep=first)
        return value


@dataclasses.dataclass(frozen=True)
class Heads:
    """The operands of an attention; ``batch`` says how its batch axes were made two.

    "direct": they were two. "joined": a product had them in one, "new": it had fewer, "grouped": it had
    heads of keys, and queries of each, apart. ``factor`` scales the scores; ``kind`` says how heads are
    shared.
    """

    queries: Form
    keys: Form
    values: Form
    batch: str
    factor: float
    kind: str

    def restore(self, build: Builder, attended: ir.Value, axes: Sequence[str]) -> ir.Value:
        """Give the result of Attention the axes, in the order, that the product with the values had."""
        assert attended.shape is not None
        rank = len(axes)
        names = (*map(str, range(rank - 2)), "n", "e")
        dims = list(attended.shape)
        if self.batch == "new":
            attended = build.like("Squeeze", [attended, _axes(build, range(4 - rank))], dims[4 - rank :])
        elif rank == 3:
            attended = reshaped(build, attended, [-1], 2)
        elif rank == 5:
            groups = [self.queries.operand.dim(name) for name in ("1", "2")]
            attended = reshaped(build, attended, groups, 2, keep=1)
        return _ordered(build, Operand(attended, names), tuple(axes))


def heads_of(scores: Scores, values: Product) -> Heads | str:
    """Return the operands in rank 4, or why there are none."""
    q, q_factor = settled(scores.product.left)
    k, k_factor = settled(scores.product.right)
    v, v_factor = settled(values.right)
    if v_factor != 1:
        v = values.right
    for operand, ends in ((q, "nd"), (k, "md"), (v, "me")):
        if operand.value.shape is None or any(end not in operand.axes for end in ends):
            return f"the axes of '{operand.value.name}' are not known"
    factor = q_factor * k_factor
    if factor <= 0:
        return f"the scores are scaled by {factor:g}"
    rank = len(scores.shape)
    found = _by_rank[rank](scores, values, q, k, v) if rank in _by_rank else f"the scores have {rank} axes"
    if isinstance(found, str):
        return found
    forms, batch = found
    return _agreed(forms, batch, factor)


_Found = tuple[tuple[Form, Form, Form], str] | str


def _new_axes(scores: Scores, _: Product, q: Operand, k: Operand, v: Operand) -> _Found:
    """One batch axis or none: as they were before two were joined, or with new ones."""
    if len(scores.shape) == 3:
        before = [_before_joining(operand) for operand in (q, k, v)]
        plain = all(len(piece.value.shape or ()) < 3 for piece in scores.pieces)
        if plain and None not in before and len({operand.dim("1") for operand in before if operand}) == 1:
            q, k, v = (settled(operand)[0] for operand in before if operand is not None)
            return _forms(q, k, v, ("0", "1")), "joined"
        return _forms(q, k, v, (None, "0")), "new"
    return _forms(q, k, v, (None, None)), "new"


def _before_joining(operand: Operand) -> Operand | None:
    node = operand.value.producer()
    source = node.inputs[0] if node is not None and node.op_type == "Reshape" and not node.domain else None
    if source is None or source.shape is None or operand.value.shape is None or operand.axes[0] != "0":
        return None
    if len(source.shape) != 4 or len(operand.axes) != 3 or not isinstance(source.shape[1], int):
        return None
    if list(source.shape)[2:] != list(operand.value.shape)[1:]:
        return None
    return Operand(source, ("0", "1", *operand.axes[1:]))


def _two_axes(scores: Scores, values: Product, q: Operand, k: Operand, v: Operand) -> _Found:
    """(batch, heads), which the products may have joined to one axis."""
    forms = []
    ranks = (len(scores.product.axes), len(scores.product.axes), len(values.axes))
    for operand, rank, ends in zip((q, k, v), ranks, (("n", "d"), ("m", "d"), ("m", "e")), strict=True):
        if rank == 4:
            forms.append(Form(operand, ("0", "1", *ends)))
        elif (before := _before_joining(operand)) is not None and before.dim("1") == scores.shape[1]:
            forms.append(Form(settled(before)[0], ("0", "1", *ends)))
        elif isinstance(heads := scores.shape[1], int) and operand.axes[0] == "0":
            forms.append(Form(operand, ("0", *ends), split=heads))
        else:
            return f"the number of heads '{heads}' is not fixed"
    queries, keys, values_ = forms
    return (queries, keys, values_), "direct"


def _three_axes(_: Scores, __: Product, q: Operand, k: Operand, v: Operand) -> _Found:
    """(batch, key heads, queries of each) as grouped heads."""
    groups = [operand.dim("2") for operand in (q, k, v)]
    heads = [operand.dim("1") for operand in (q, k, v)]
    if not (groups[1] == groups[2] == 1 and isinstance(groups[0], int) and isinstance(heads[0], int)):
        return "the scores have three batch axes, of which the keys do not lack the last"
    if any("2" in operand.axes for operand in (k, v)):
        return "the keys have an axis of one entry that is not made by Unsqueeze"
    forms = _forms(q, k, v, ("0", "1"))
    queries = Form(q, ("0", "1", "2", "n", "d"), joined=(1, 3, heads[0] * groups[0]))
    return (queries, *forms[1:]), "grouped"


def _forms(q: Operand, k: Operand, v: Operand, batch: tuple[str | None, ...]) -> tuple[Form, Form, Form]:
    return Form(q, (*batch, "n", "d")), Form(k, (*batch, "m", "d")), Form(v, (*batch, "m", "e"))


_by_rank = {2: _new_axes, 3: _new_axes, 4: _two_axes, 5: _three_axes}


def _agreed(forms: tuple[Form, Form, Form], batch: str, factor: float) -> Heads | str:
    """Leave out repeated heads, and say why what is left does not fit together."""
    queries, keys, values = forms
    fewer = [_with_fewer_heads(form) for form in (keys, values)]
    if fewer[0].operand.dim("1") == fewer[1].operand.dim("1"):
        keys, values = fewer
    q, k, v = (form.operand for form in (queries, keys, values))
    if not same_dim(q.dim("d"), k.dim("d")):
        return "the size of a query and a key are not known to be equal"
    if not same_dim(k.dim("m"), v.dim("m")):
        return "keys and values are not known to be equally many"
    if any(form.split for form in (queries, keys, values)):  # they come from products of equal batch axes
        return Heads(queries, keys, values, batch, factor, "")
    batches = [operand.dim("0") for operand in (q, k, v)]
    if not (same_dim(batches[0], batches[1]) and same_dim(batches[1], batches[2])):
        return f"queries, keys and values have the batch sizes {', '.join(map(str, batches))}"
    counts = [queries.joined[2] if queries.joined else q.dim("1"), k.dim("1"), v.dim("1")]
    if batch != "new" and (reason := _why_not_shared(*counts)):
        return reason
    shared = batch != "new" and not same_dim(counts[0], counts[1])
    kind = f"{counts[0]} heads share {counts[1]} of keys" if shared else ""
    return Heads(queries, keys, values, batch, factor, kind)


def _why_not_shared(queries: Dim, keys: Dim, values: Dim) -> str | None:
    """Return why heads of so many queries cannot share those of keys and values."""
    if not same_dim(keys, values):
        return f"keys and values have {keys} and {values} heads"
    if same_dim(queries, keys) or (
        isinstance(queries, int) and isinstance(keys, int) and queries % keys == 0
    ):
        return None
    return f"queries and keys have {queries} and {keys} heads"


def _with_fewer_heads(form: Form) -> Form:
    if form.split or "1" not in form.operand.axes:
        return form
    operand, factor = settled(before_repeat(form.operand, "1"))
    return dataclasses.replace(form, operand=operand) if factor == 1 else form


def _ordered(build: Builder, operand: Operand, order: Sequence[str | None]) -> ir.Value:
    """Transpose ``operand`` into ``order`` and add the axes that it lacks."""
    value = operand.value
    assert value.shape is not None
    present = [name for name in order if name is not None and name in operand.axes]
    assert len(present) == len(operand.axes)
    perm = [operand.axes.index(name) for name in present]
    dims = [value.shape[axis] for axis in perm]
    if perm != sorted(perm):
        value = build.op("Transpose", [value], {"perm": perm}, dtype=value.dtype, shape=dims)
    missing = [axis for axis, name in enumerate(order) if name is None or name not in operand.axes]
    if missing:
        for axis in missing:
            dims.insert(axis, 1)
        value = build.like("Unsqueeze", [value, _axes(build, missing)], dims)
    return value


def reshaped(build: Builder, value: ir.Value, sizes: Sequence[Dim], until: int, *, keep: int = 0) -> ir.Value:
    """Replace the axes ``keep`` to ``until`` (not included) by axes of ``sizes``, of which one may be -1."""
    assert value.shape is not None
    dims = list(value.shape)
    parts = [_shape(build, value, 0, keep)] if keep else []
    parts.append(build.constant(np.array([int(size) for size in sizes if isinstance(size, int)]), "sizes"))
    parts.append(_shape(build, value, until, len(dims)))
    rank = keep + len(sizes) + len(dims) - until
    target = build.op("Concat", parts, {"axis": 0}, dtype=ir.DataType.INT64, shape=[rank])
    joined = dims[keep:until]
    total = (
        math.prod(dim for dim in joined if isinstance(dim, int))
        if all(isinstance(d, int) for d in joined)
        else None
    )
    new: list[Dim] = [ir.SymbolicDim(None) if size == -1 else size for size in sizes]
    if total is not None and len(sizes) == 1:
        new = [total]
    return build.op("Reshape", [value, target], dtype=value.dtype, shape=[*dims[:keep], *new, *dims[until:]])


def _shape(build: Builder, value: ir.Value, start: int, end: int) -> ir.Value:
    return build.op(
        "Shape", [value], {"start": start, "end": end}, dtype=ir.DataType.INT64, shape=[end - start]
    )


def _axes(build: Builder, axes: Sequence[int]) -> ir.Value:
    return build.constant(np.array(list(axes), np.int64), "axes")
