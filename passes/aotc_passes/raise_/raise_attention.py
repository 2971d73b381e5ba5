"""Raise attention that is spelled as products around a softmax to the standard operator."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.builder import Builder
from aotc.ir.edit import Names, discard, take_over
from aotc.ir.scopes import describe, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal
from aotc_passes.raise_._heads import Heads, heads_of
from aotc_passes.raise_._masks import Mask, mask_of
from aotc_passes.raise_._operands import Product, product_of, scalar, with_left
from aotc_passes.raise_._scores import Scores, regroups, scores_of

_MOST_BETWEEN = 4


@dataclasses.dataclass(frozen=True)
class RaiseAttention(Pass):
    """Turn a softmax between two products into Attention.

    Rewrites:
        ``softmax(scale * Q K^T + mask) V`` as MatMul or Einsum, with none to three batch axes, the scale
        before or after the product or split over its operands, masks that are added or chosen with Where, a
        softcap, heads that are repeated for grouped queries (the repetition is left out). A mask that
        depends on sizes alone is evaluated, at small sizes and around every number that it is computed with:
        what allows each query the keys up to its own position becomes ``is_causal``, what allows everything
        is left out. A row whose mask may allow no key keeps eager's meaning: NaN where scores become
        -inf, the mean of V where they become the lowest number.

    Requires:
        Opset 24; shapes; constants as initialisers: fold-constants runs before.

    Refuses when:
        The softmax or the scores are used elsewhere (returned attention weights); the softmax is over
        another axis; queries, keys and values do not agree in batch and heads; the scale is not positive;
        masked scores become a number that scores may reach; a mask does not cover the keys.

    Numerics:
        Scaling is applied elsewhere and differs by rounding. Scores are taken to stay above -1e9: masked by
        a number that low, they are taken to count for nothing. Scores of NaN give NaN, also where a guard
        that is spelled with IsNaN would give 0.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        names = Names(model)
        for graph in graphs(model):
            for softmax in [node for node in graph if is_op(node, "Softmax")]:
                match _site(softmax):
                    case str(reason):
                        refusals.append(_refusal(reason, softmax))
                    case _Site() as site:
                        line = _raise(site, model, context, names)
                        if isinstance(line, Refusal):
                            refusals.append(line)
                        else:
                            changes.append(line)
        return PassResult(tuple(changes), tuple(refusals))


def _refusal(reason: str, softmax: ir.Node) -> Refusal:
    return Refusal(reason, describe(softmax), operator="Attention")


@dataclasses.dataclass(frozen=True)
class _Site:
    """An attention: its scores, its softmax, and the product with the values on its right."""

    softmax: ir.Node
    scores: Scores
    values: Product
    zero_for_nan: bool


def _site(softmax: ir.Node) -> _Site | str | None:
    """Return the attention around ``softmax``, why it is none, or None where it does not look like one."""
    source = softmax.inputs[0]
    if source is None or source.shape is None:
        return None
    scores = scores_of(source)
    if not isinstance(scores, Scores):
        return scores
    rank = len(source.shape)
    if softmax.attributes.get_int("axis", -1) not in (-1, rank - 1):
        return "the softmax is not over the keys"
    return _with_values(softmax, scores)


def _with_values(softmax: ir.Node, scores: Scores) -> _Site | str | None:
    weights, guarded = softmax.outputs[0], False
    if not _meets_values(weights, scores.product.right.value):
        return None
    while True:
        if weights.is_graph_output():
            return f"the attention weights '{weights.name}' are an output of the graph"
        users = [use.node for use in weights.uses()]
        if len(users) == 2 and (guard := _guard(weights, users)) is not None:
            weights, guarded = guard, True
            continue
        if len(users) != 1:
            return f"the attention weights '{weights.name}' are used {len(users)} times"
        (user,) = users
        if (product := product_of(user, "n", "m", "e")) is not None:
            named = with_left(product, weights)
            return _Site(softmax, scores, named, guarded) if named else "the values are not on the right"
        if not _passes_on(user, scores):
            return f"the attention weights go through {user.op_type}"
        weights = user.outputs[0]


def _meets_values(weights: ir.Value, keys: ir.Value) -> bool:
    """Return whether a product takes ``weights``, at most a few operators later.

    Not one with a parameter if ``keys`` are one too: that is a layer behind a layer.
    """
    values = [weights]
    for _ in range(_MOST_BETWEEN):
        users = [use.node for value in values for use in value.uses()]
        products = [product for user in users if (product := product_of(user)) is not None]
        if products:
            return not (keys.is_initializer() and products[0].right.value.is_initializer())
        values = [output for user in users for output in user.outputs]
    return False


def _guard(weights: ir.Value, users: list[ir.Node]) -> ir.Value | None:
    """Return ``Where(IsNaN(weights), 0, weights)``, torch's for rows without a key; None if there is none."""
    tests = [node for node in users if is_op(node, "IsNaN")]
    choices = [node for node in users if is_op(node, "Where") and node.inputs[2] is weights]
    if not (tests and choices) or choices[0].inputs[0] is not tests[0].outputs[0]:
        return None
    return choices[0].outputs[0] if scalar(choices[0].inputs[1]) == 0 else None


def _passes_on(node: ir.Node, scores: Scores) -> bool:
    """Return whether ``node`` only splits or joins batch axes, or casts to a type and back."""
    source, result = node.inputs[0], node.outputs[0]
    if is_op(node, "Cast") and source is not None:
        return _is_wider(source.dtype, result.dtype, scores)
    return regroups(node)


def _is_wider(before: ir.DataType | None, after: ir.DataType | None, scores: Scores) -> bool:
    product = scores.product.node.outputs[0].dtype
    wide = {None: 0, ir.DataType.FLOAT16: 1, ir.DataType.FLOAT: 2, ir.DataType.DOUBLE: 3}
    sizes = [wide.get(dtype, 0) for dtype in (product, before, after)]
    return 0 not in sizes and min(sizes[1:]) >= sizes[0]


def _raise(site: _Site, model: ir.Model, context: Context, names: Names) -> str | Refusal:
    result = site.values.node.outputs[0]
    build = Builder(site.values.node, names, str(result.name))
    heads = heads_of(site.scores, site.values)
    if isinstance(heads, str):
        return _refusal(heads, site.softmax)
    mask = mask_of(site.scores, heads, model, context.oracle, zero_rows=site.zero_for_nan)
    if isinstance(mask, str):
        return _refusal(mask, site.softmax)
    line = _line(site, heads, mask)
    attended = _attention(build, heads, mask, site.scores)
    replacement = heads.restore(build, attended, site.values.axes)
    take_over(replacement, result)
    discard(site.values.node)
    return line


def _attention(build: Builder, heads: Heads, mask: Mask, scores: Scores) -> ir.Value:
    queries, keys, values = (operand.build(build) for operand in (heads.queries, heads.keys, heads.values))
    built, open_rows = mask.build(build)
    attributes: dict[str, int | float] = {"scale": scores.scale * heads.factor}
    if mask.is_causal:
        attributes["is_causal"] = 1
    if scores.softcap:
        attributes["softcap"] = scores.softcap
    inputs = [queries, keys, values, *([built] if built is not None else [])]
    assert queries.shape is not None
    assert values.shape is not None
    shape = [*list(queries.shape)[:3], list(values.shape)[3]]
    attended = build.op("Attention", inputs, attributes, dtype=queries.dtype, shape=shape)
    if open_rows is None:
        return attended
    nan = build.constant(np.array(np.nan, queries.dtype.numpy() if queries.dtype else None), "nan")
    return build.op("Where", [open_rows, attended, nan], dtype=queries.dtype, shape=shape)


def _line(site: _Site, heads: Heads, mask: Mask) -> str:
    parts = [
        name
        for name, on in (
            ("causal", mask.is_causal),
            ("masked", not mask.is_empty),
            ("softcap", bool(site.scores.softcap)),
            (heads.kind, bool(heads.kind)),
        )
        if on
    ]
    return f"{place(site.softmax)}: products and softmax -> Attention" + (
        f" ({', '.join(parts)})" if parts else ""
    )
