"""Constants of a graph: which values are constant, what they hold, and which parameters they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

SOURCE = "aotc.source"
"""Metadata of an initialiser: the names of the parameters it was computed from, separated by commas."""

_FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
_SAMPLE = 256


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of ``value`` if it is an initialiser that no caller can override, else None."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def constant_of_node(node: ir.Node) -> ir.TensorProtocol | None:
    """Return the tensor that a ``Constant`` node holds, or None if it is sparse."""
    name, attribute = next(iter(node.attributes.items()), ("", None))
    if attribute is None:
        return None
    if name == "value":
        return attribute.as_tensor()
    if name in ("value_int", "value_ints"):
        return ir.Tensor(np.asarray(attribute.value, dtype=np.int64))
    if name in ("value_float", "value_floats"):
        return ir.Tensor(np.asarray(attribute.value, dtype=np.float32))
    if name == "value_string":
        return ir.StringTensor([attribute.as_string().encode()], shape=ir.Shape([]))
    if name == "value_strings":
        texts = attribute.as_strings()
        return ir.StringTensor([text.encode() for text in texts], shape=ir.Shape([len(texts)]))
    return None


def sources(values: Iterable[ir.Value | None]) -> list[str]:
    """Return the names of the parameters behind ``values``, each once, in order.

    An initialiser without a note is a parameter of its own name; the exporter's own folding left its notes
    under a key of onnxscript.
    """
    names: dict[str, None] = {}
    for value in values:
        if value is None:
            continue
        note = value.metadata_props.get(SOURCE)
        if note is None and (folded := value.metadata_props.get(_FOLDED_FROM)):
            note = ",".join(part.strip(" '\"") for part in folded.strip("[]").split(","))
        names.update(dict.fromkeys((str(value.name) if note is None else note).split(",")))
    names.pop("", None)
    return list(names)


def new_initializer(name: str, tensor: ir.TensorProtocol, origins: Iterable[str]) -> ir.Value:
    """Return a constant value holding ``tensor``, not yet in a graph, that notes where it came from."""
    tensor.name = name
    return ir.Value(
        name=name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape.numpy()),
        const_value=tensor,
        metadata_props={SOURCE: ",".join(origins)},
    )


def sample(tensor: ir.TensorProtocol) -> bytes:
    """Return the bytes of the first elements: equal tensors have equal samples, and it costs nothing."""
    if isinstance(tensor, ir.StringTensor):
        return digest(tensor)
    return np.ascontiguousarray(tensor.numpy().flat[:_SAMPLE]).tobytes()


def digest(tensor: ir.TensorProtocol) -> bytes:
    """Return the sha256 of the tensor's elements, without copying a tensor that is stored contiguously."""
    if isinstance(tensor, ir.StringTensor):
        parts = tensor.string_data()
        return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()
    flat = np.ascontiguousarray(tensor.numpy()).reshape(-1)
    return hashlib.sha256(flat.view(np.uint8).data).digest()
