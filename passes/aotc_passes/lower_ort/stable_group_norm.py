"""Normalise groups by their centred values, because ONNX's own definition cancels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import new_initializer
from aotc.ir.edit import Names, take_over
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal


@dataclasses.dataclass(frozen=True)
class StableGroupNorm(Pass):
    """Turn GroupNormalization into InstanceNormalization of the groups, for which there is a kernel.

    Rewrites:
        GroupNormalization(x, scale, bias) becomes ``InstanceNormalization(r, 1, 0)`` with
        ``r = Reshape(x, (0, groups, -1))``, in the shape of x, times scale plus bias for each channel.

    Requires:
        Opset 21 or later, where scale and bias have an entry for each channel.

    Refuses when:
        x is not float32, which is what the kernel takes, or its rank is not known.

    Numerics:
        ONNX Runtime has no kernel for GroupNormalization and runs its definition, whose variance is
        ``mean(x**2) - mean(x)**2``: where the mean is large beside the spread, little is left of it. The
        kernel of InstanceNormalization squares what is left after the mean is subtracted, as eager does.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        names = Names(model)
        for graph in graphs(model):
            for node in [node for node in graph if is_op(node, "GroupNormalization")]:
                source = node.inputs[0]
                assert source is not None
                if source.dtype != ir.DataType.FLOAT or source.shape is None:
                    reason = f"'{source.name}' is not known to be float32 of a known rank"
                    refusals.append(Refusal(reason, describe(node)))
                    continue
                _lower(node, source, source.shape.rank(), names)
                changes.append(f"{place(node)}: groups are centred before they are squared")
        return PassResult(tuple(changes), tuple(refusals))


def _lower(node: ir.Node, source: ir.Value, rank: int, names: Names) -> None:
    graph, result = node.graph, node.outputs[0]
    assert graph is not None
    groups = node.attributes["num_groups"].as_int()
    nodes: list[ir.Node] = []

    def constant(stem: str, array: Any) -> ir.Value:
        value = new_initializer(names.fresh(f"{result.name}_{stem}"), ir.Tensor(array), [])
        graph.initializers.add(value)
        return value

    def add(op_type: str, inputs: list[Any], stem: str, **attributes: Any) -> ir.Value:
        new = ir.node(op_type, inputs, attributes)
        new.outputs[0].name = names.fresh(f"{result.name}_{stem}")
        new.name = f"node_{new.outputs[0].name}"
        inherit(new, [node])
        nodes.append(new)
        return new.outputs[0]

    grouped = add("Reshape", [source, constant("groups", np.array([0, groups, -1]))], "grouped")
    ones, zeros = (
        constant(stem, make(groups, np.float32)) for stem, make in (("1", np.ones), ("0", np.zeros))
    )
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    normal = add("InstanceNormalization", [grouped, ones, zeros], "normal", epsilon=epsilon)
    whole = add("Reshape", [normal, add("Shape", [source], "shape")], "whole")
    channels = constant("channels", np.array([-1, *[1] * (rank - 2)]))
    scale, bias = (
        add("Reshape", [value, channels], stem)
        for value, stem in zip(node.inputs[1:3], ("scale", "bias"), strict=True)
    )
    total = add("Add", [add("Mul", [whole, scale], "scaled"), bias], "shifted")
    graph.insert_before(node, nodes)
    take_over(total, result)
    graph.remove(node, safe=True)
