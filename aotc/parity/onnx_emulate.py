"""Stand-ins for the float64 kernels that ONNX Runtime lacks, as the operators' specifications define them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.ir.single import isolate
from aotc.ir.walk import is_op, subgraphs

Array = np.ndarray[Any, Any]


def emulate(
    node: ir.Node, inputs: Sequence[Array | None], opset_imports: Mapping[str, int]
) -> list[Array | None]:
    """Return the outputs of ``node`` in float64: None where it leaves an optional one out.

    Raises:
        RefusedError: There is no stand-in.
    """
    if is_op(node, "Conv", "ConvTranspose"):
        return [_convolve(node, inputs)]
    if is_op(node, "GlobalMaxPool", "GlobalAveragePool"):
        data = np.asarray(inputs[0])
        axes = tuple(range(2, data.ndim))
        return [
            data.max(axes, keepdims=True)
            if node.op_type == "GlobalMaxPool"
            else data.mean(axes, keepdims=True)
        ]
    return _by_reference(node, inputs, opset_imports)


def _by_reference(
    node: ir.Node, inputs: Sequence[Array | None], opset_imports: Mapping[str, int]
) -> list[Array | None]:
    """Run the ONNX reference implementation."""
    from onnx.reference import ReferenceEvaluator

    if any(True for _ in subgraphs(node)):
        raise RefusedError(f"{node.op_type} has subgraphs and can't be run alone", slug="oracle")
    tensors = [None if array is None else ir.tensor(array) for array in inputs]
    model = isolate(node, tensors, opset_imports)
    names = [str(output.name) for output in model.graph.outputs]
    feeds = {f"input_{i}": array for i, array in enumerate(inputs) if array is not None}
    try:
        found = dict(zip(names, ReferenceEvaluator(ir.to_proto(model)).run(names, feeds), strict=True))
    except Exception as error:
        raise RefusedError(f"{node.op_type} has no float64 kernel: {error}", slug="oracle") from error
    return [found.get(f"output_{i}") for i in range(len(node.outputs))]


def _convolve(node: ir.Node, inputs: Sequence[Array | None]) -> Array:
    """Convolve by torch, which takes milliseconds where the reference implementation takes minutes."""
    import torch
    from torch.nn import functional

    data, weight = (torch.from_numpy(np.array(array)) for array in inputs[:2])
    bias = torch.from_numpy(np.array(inputs[2])) if len(inputs) > 2 and inputs[2] is not None else None
    rank = data.ndim - 2
    ints = node.attributes.get_ints
    strides, dilations = list(ints("strides", [1] * rank)), list(ints("dilations", [1] * rank))
    begins, ends = _pads(node, data.shape[2:], weight.shape[2:], strides, dilations)
    group = node.attributes.get_int("group", 1)
    if node.op_type == "Conv":
        padded = functional.pad(
            data, [pad for pair in zip(begins[::-1], ends[::-1], strict=True) for pad in pair]
        )
        result = torch.convolution(
            padded, weight, bias, strides, [0] * rank, dilations, False, [0] * rank, group
        )
        return np.asarray(result.numpy())
    result = torch.convolution(data, weight, None, strides, [0] * rank, dilations, True, [0] * rank, group)
    for axis, (begin, end, extra) in enumerate(
        zip(begins, ends, ints("output_padding", [0] * rank), strict=True), 2
    ):
        padding = [0, 0] * (result.ndim - axis - 1) + [0, extra]
        result = functional.pad(result, padding)
        result = result.narrow(axis, begin, result.shape[axis] - begin - end)
    return np.asarray((result if bias is None else result + bias.reshape(1, -1, *[1] * rank)).numpy())


def _pads(
    node: ir.Node,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """Return the padding before and after each axis."""
    rank = len(size)
    auto = node.attributes.get_string("auto_pad", "NOTSET")
    if "output_shape" in node.attributes or (node.op_type == "ConvTranspose" and auto.startswith("SAME")):
        raise RefusedError("ConvTranspose with a given output shape has no float64 kernel", slug="oracle")
    if not auto.startswith("SAME"):
        pads = [0] * 2 * rank if auto == "VALID" else list(node.attributes.get_ints("pads", [0] * 2 * rank))
        return pads[:rank], pads[rank:]
    total = [
        max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    return (less, more) if auto == "SAME_UPPER" else (more, less)
