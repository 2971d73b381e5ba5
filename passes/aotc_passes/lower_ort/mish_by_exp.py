"""Compute Mish by one exponential, because ONNX Runtime's Softplus is slow."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import new_initializer
from aotc.ir.edit import Names, remove, take_over
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal

_FLAT = 20.0
"""From here on tanh(softplus(x)) is 1 in float32."""


@dataclasses.dataclass(frozen=True)
class MishByExp(Pass):
    """Turn Mish into arithmetic with one exponential.

    Rewrites:
        Mish(x) becomes ``x * n / (n + 2)`` with ``n = e * (e + 2)`` and ``e = exp(min(x, 20))``.

    Requires:
        Known dtypes.

    Refuses when:
        x is not float32: n does not fit into float16.

    Numerics:
        ``tanh(log(1 + e))`` is ``((1 + e)**2 - 1) / ((1 + e)**2 + 1)``, which is ``n / (n + 2)`` and does not
        cancel anywhere. ONNX Runtime has no kernel for Mish and runs its definition, and its
        kernel of Softplus is slow.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        names = Names(model)
        for graph in graphs(model):
            for node in [node for node in graph if is_op(node, "Mish")]:
                source = node.inputs[0]
                if source is None or source.dtype != ir.DataType.FLOAT:
                    refusals.append(Refusal("its input is not known to be float32", describe(node)))
                    continue
                _lower(node, source, names)
                changes.append(f"{place(node)}: Mish by one exponential")
        return PassResult(tuple(changes), tuple(refusals))


def _lower(node: ir.Node, source: ir.Value, names: Names) -> None:
    graph, result = node.graph, node.outputs[0]
    assert graph is not None
    nodes: list[ir.Node] = []

    def number(stem: str, value: float) -> ir.Value:
        tensor = ir.tensor(np.asarray(value, np.float32))
        graph.initializers.add(made := new_initializer(names.fresh(f"{result.name}_{stem}"), tensor, []))
        return made

    def add(op_type: str, stem: str, *inputs: Any) -> ir.Value:
        new = ir.node(op_type, inputs)
        value = new.outputs[0]
        value.name, value.type, value.shape = names.fresh(f"{result.name}_{stem}"), source.type, source.shape
        new.name = f"node_{value.name}"
        inherit(new, [node])
        nodes.append(new)
        return value

    two = number("two", 2.0)
    power = add("Exp", "power", add("Min", "bounded", source, number("flat", _FLAT)))
    n = add("Mul", "n", power, add("Add", "more", power, two))
    total = add("Mul", "whole", source, add("Div", "ratio", n, add("Add", "sum", n, two)))
    graph.insert_before(node, nodes)
    take_over(total, result)
    remove(node)
