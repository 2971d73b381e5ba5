"""The guards of ``aotc.export.data_checks`` in the translated graph: needless ones are dropped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import constant
from aotc.ir.nonnegative import MOST_ENTRIES, is_nonnegative
from aotc.signature import IndexRange


def guarded_index(node: ir.Node) -> ir.Value | None:
    """Return x if ``node`` is ``Where(x < 0, the largest integer, x)``, else None."""
    if node.op_type != "Where" or node.domain:
        return None
    condition, largest, index = node.inputs
    test = condition.producer() if condition is not None else None
    if index is None or index.dtype is None or not index.dtype.is_integer() or test is None:
        return None
    below = test.op_type == "Less" and test.inputs[0] is index and _holds(test.inputs[1], 0)
    return index if below and _holds(largest, int(np.iinfo(index.dtype.numpy()).max)) else None


def _holds(value: ir.Value | None, number: int) -> bool:
    tensor = constant(value)
    return tensor is not None and tensor.size == 1 and int(tensor.numpy().item()) == number


def drop_needless_guards(model: ir.Model, ranges: Mapping[str, IndexRange]) -> None:
    """Remove the guards of indices that cannot be negative: what computes them, or checks them, shows it.

    Args:
        model: The imported graph.
        ranges: What the runtime checks, by input name.
    """
    checked = {
        name: allowed.high if isinstance(allowed.high, int) else MOST_ENTRIES
        for name, allowed in ranges.items()
        if allowed.low == 0
    }
    for node in list(model.graph.all_nodes()):
        index = guarded_index(node)
        if index is not None and is_nonnegative(index, checked):
            node.outputs[0].replace_all_uses_with(index)
