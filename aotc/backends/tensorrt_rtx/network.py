"""Walks a network that TensorRT has parsed: what it dropped or changed shows here, before it is built."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.signature import Signature, TensorSpec


def check_network(trt: Any, network: Any, graph: ir.Graph, signature: Signature) -> None:
    """Compare the interface of ``network`` with the signature, and its inputs' uses with those of ``graph``.

    Args:
        trt: The module ``tensorrt_rtx``.
        network: What the parser made of ``graph``.
        graph: The ONNX graph.
        signature: What the engine promises.

    Raises:
        RefusedError: An input or output has another name, type or static size, or an input is not read.
    """
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    outputs = [network.get_output(i) for i in range(network.num_outputs)]
    _compare("input", trt, inputs, signature.inputs)
    _compare("output", trt, outputs, signature.outputs)
    read = {tensor.name for tensor in _read(network)}
    for value in graph.inputs:
        if value.uses() and value.name not in read:
            _refuse(f"the input '{value.name}' is read by the graph and by no layer of the network")


def make_attention_decomposable(trt: Any, network: Any) -> None:
    """Let TensorRT build attention out of other layers where it has no kernel of its own.

    It has none for float32, for one head and for heads of 8 values.
    """
    for layer in _layers(network):
        if layer.type == trt.LayerType.ATTENTION_INPUT:
            layer.__class__ = trt.IAttentionBoundaryLayer  # get_layer returns the base class
            layer.attention.decomposable = True


def _layers(network: Any) -> list[Any]:
    return [network.get_layer(i) for i in range(network.num_layers)]


def _read(network: Any) -> list[Any]:
    found = [layer.get_input(i) for layer in _layers(network) for i in range(layer.num_inputs)]
    return [tensor for tensor in found if tensor is not None]


def _compare(kind: str, trt: Any, found: list[Any], specs: tuple[TensorSpec, ...]) -> None:
    names, wanted = [tensor.name for tensor in found], [spec.name for spec in specs]
    if sorted(names) != sorted(wanted):
        _refuse(f"the network has the {kind}s {names}, the graph {wanted}")
    by_name = {tensor.name: tensor for tensor in found}
    for spec in specs:
        tensor = by_name[spec.name]
        dtype = _dtypes(trt).get(tensor.dtype, str(tensor.dtype))
        if dtype != spec.dtype:
            _refuse(f"the {kind} '{spec.name}' is {dtype} in the network and {spec.dtype} in the graph")
        shape = tuple(tensor.shape)
        if len(shape) != len(spec.shape) or any(
            isinstance(size, int) and -1 != got != size for got, size in zip(shape, spec.shape, strict=True)
        ):
            _refuse(f"the {kind} '{spec.name}' is {shape} in the network and {spec.shape} in the graph")


def _dtypes(trt: Any) -> dict[Any, str]:
    names = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16"}
    names |= {name: name.lower() for name in ("INT8", "INT32", "INT64", "UINT8", "BOOL")}
    return {getattr(trt.DataType, name): text for name, text in names.items()}


def _refuse(text: str) -> None:
    raise RefusedError(
        f"TensorRT-RTX would build another function: {text}", slug="tensorrt-rtx", hint="report the model"
    )
