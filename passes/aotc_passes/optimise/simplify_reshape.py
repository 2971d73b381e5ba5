"""Give a Reshape a constant target where labels prove which axes it keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.builder import Builder
from aotc.ir.constants import constant
from aotc.ir.edit import Names, discard
from aotc.ir.scopes import describe, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal

Dim = int | ir.SymbolicDim
_COPY = 0
_REST = -1


@dataclasses.dataclass(frozen=True)
class SimplifyReshape(Pass):
    """Replace the computed target of a Reshape by a constant one.

    Rewrites:
        Reshape(x, target) where each dim of the result is a number, or has the label of the same axis of x
        (0 in the target copies it), but for at most one. That one is what is left (-1), which is never wrong:
        it is taken only if the other dims are numbers above 0 or copied from axes that are not what is left.
        The operators that computed the target go, if nobody else reads it.

    Requires:
        Labels: equal ones are equal sizes. fold-constants runs before.

    Refuses when:
        Two dims or more are neither numbers nor those of the same axis of x; a dim is 0; -1 would stand
        beside a size that may be 0, where it is not defined.

    Numerics:
        Exact: no element moves.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        names = Names(model)
        for graph in graphs(model):
            for node in [node for node in graph if is_op(node, "Reshape")]:
                target = node.inputs[1]
                if target is None or constant(target) is not None:
                    continue
                found = _target(node)
                if isinstance(found, str):
                    refusals.append(Refusal(found, describe(node)))
                    continue
                _replace(node, target, found, names)
                changes.append(f"{place(node)}: the target of Reshape is {found}")
        return PassResult(tuple(changes), tuple(refusals))


def _target(node: ir.Node) -> list[int] | str:
    """Return the constant target of a Reshape, or why it has none."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or result.shape is None:
        return "the number of axes is not known"
    before, after = list(source.shape), list(result.shape)
    if 0 in after:
        return "a size is 0"
    target = [_entry(axis, dim, before) for axis, dim in enumerate(after)]
    left = [axis for axis, entry in enumerate(target) if entry is None]
    if len(left) > 1:
        names = ", ".join(str(after[axis]) for axis in left)
        return f"the sizes {names} are not those of the same axes of '{source.name}'"
    if left and _COPY in target:
        return f"the size {after[left[0]]} would be the rest beside a size that may be 0"
    return [_REST if entry is None else entry for entry in target]


def _entry(axis: int, dim: Dim, before: Sequence[Dim]) -> int | None:
    """Return the entry of the target for one axis; None for what is neither a number nor copied."""
    if isinstance(dim, int):
        return dim
    if dim.value is not None and axis < len(before):
        old = before[axis]
        if not isinstance(old, int) and old.value == dim.value:
            return _COPY
    return None


def _replace(node: ir.Node, target: ir.Value, entries: list[int], names: Names) -> None:
    build = Builder(node, names, str(node.outputs[0].name))
    node.replace_input_with(1, build.constant(np.array(entries, np.int64), "shape"))
    node.attributes.pop("allowzero", None)
    if (producer := target.producer()) is not None:
        discard(producer)
