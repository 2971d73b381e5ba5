"""Compute Swish by ONNX Runtime's own QuickGelu, for which there is one kernel."""

from __future__ import annotations

import dataclasses

import onnx_ir as ir
from typing_extensions import override

from aotc.ir.edit import remove, take_over
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal

_DOMAIN = "com.microsoft"


@dataclasses.dataclass(frozen=True)
class QuickGelu(Pass):
    """Turn Swish into QuickGelu, for which there is a kernel.

    Rewrites:
        Swish(x) of any alpha becomes ``com.microsoft.QuickGelu(x)`` of the same alpha.

    Requires:
        Known dtypes.

    Refuses when:
        x is not float32, which is what the kernel takes.

    Numerics:
        Both are ``x * sigmoid(alpha * x)``. ONNX Runtime has no kernel for Swish and runs its definition, in
        three steps.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        for graph in graphs(model):
            for node in [node for node in graph if is_op(node, "Swish")]:
                source = node.inputs[0]
                if source is None or source.dtype != ir.DataType.FLOAT:
                    refusals.append(Refusal("its input is not known to be float32", describe(node)))
                    continue
                alpha = ir.AttrFloat32("alpha", node.attributes.get_float("alpha", 1.0))
                new = ir.Node(_DOMAIN, "QuickGelu", [source], [alpha], name=node.name)
                inherit(new, [node])
                graph.insert_before(node, [new])
                take_over(new.outputs[0], node.outputs[0])
                remove(node)
                model.opset_imports.setdefault(_DOMAIN, 1)
                changes.append(f"{place(new)}: Swish -> QuickGelu")
        return PassResult(tuple(changes), tuple(refusals))
