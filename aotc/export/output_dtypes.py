"""Outputs in the dtype that eager returns.

The exporter computes what eager computes in "op math" (a sum of float16, say) in float32 and casts the result
back for every reader but one: the graph's own output. See https://github.com/pytorch/pytorch/issues/106298.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_BY_NAME = {
    "bool": ir.DataType.BOOL,
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "float32": ir.DataType.FLOAT,
    "float64": ir.DataType.DOUBLE,
}


def restore_output_dtypes(graph: ir.Graph, program: ExportedProgram) -> None:
    """Cast each output of ``graph`` that has another dtype than in ``program``."""
    nodes = {node.name: node for node in program.graph.nodes}
    for index, name in enumerate(program.graph_signature.user_outputs):
        node, value = nodes.get(str(name)), graph.outputs[index]
        dtype = str(getattr(node.meta.get("val") if node is not None else None, "dtype", ""))
        wanted = _BY_NAME.get(dtype.removeprefix("torch."))
        if wanted is None or value.dtype in (None, wanted):
            continue
        cast = ir.node("Cast", [value], {"to": wanted}, name=f"{value.name}_{wanted.name.lower()}")
        output = cast.outputs[0]
        output.name = cast.name
        output.type, output.shape = ir.TensorType(wanted), value.shape
        if (producer := value.producer()) is not None:
            cast.metadata_props.update(producer.metadata_props)
        graph.append(cast)
        graph.outputs[index] = output
