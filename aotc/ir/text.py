"""The text form of a model: ONNX text, deterministic, with large tensors left out.

Node metadata is not part of ONNX text; ``scopes`` reads it.
"""

from __future__ import annotations

import onnx_ir as ir

_MAX_ELEMENTS = 64


def to_text(model: ir.Model) -> str:
    """Return the ONNX text of ``model``; initialisers of more than 64 elements are shown as inputs.

    Equal graphs have equal text.
    """
    copy = model.clone()
    for name, value in list(copy.graph.initializers.items()):
        if value.const_value is not None and value.const_value.size > _MAX_ELEMENTS:
            del copy.graph.initializers[name]
            value.const_value = None
            copy.graph.inputs.append(value)
    return ir.to_onnx_text(copy)
