"""Fold the batch normalisation after a convolution into the convolution."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import numpy as np
import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import SOURCE, constant, digest, new_initializer, sources
from aotc.ir.edit import Names, discard_dead_initializers, remove, take_over
from aotc.ir.scopes import describe, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, Pass, PassResult, Refusal

Array = np.ndarray[Any, Any]
_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)
_ATTRIBUTES = {"epsilon", "momentum", "training_mode"}
_PARAMETERS = ("scale", "bias", "mean", "variance")


@dataclasses.dataclass(frozen=True)
class FoldBatchNorm(Pass):
    """Turn Conv or ConvTranspose followed by BatchNormalization into one convolution.

    Rewrites:
        With ``s = scale / sqrt(variance + epsilon)``: each filter is multiplied by the ``s`` of its output
        channel, and the bias becomes ``(bias - mean) * s + B``. Any number of spatial dims and any groups;
        the weight keeps its name, and notes the parameters it came from. Convolutions that share a weight
        are folded together if the same normalisation follows each.

    Requires:
        Constants as initialisers: fold-constants runs before. share-duplicates runs after, because it
        lets convolutions share weights.

    Refuses when:
        Anything but a convolution of the same graph comes before the normalisation; the convolution's output
        is used elsewhere or is a graph output; weight, bias or statistics are not constant; the weight is
        used elsewhere; the normalisation is in training form, has further outputs or unknown attributes; the
        weight is not float16, float32 or float64; sizes do not agree; the folded values are not finite.

    Numerics:
        Computed in float64 and rounded once to the weight's type; differs from the two operators by rounding.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place; repeats because two normalisations may follow one convolution."""
        changes: list[str] = []
        while True:
            refusals: list[Refusal] = []
            names, before = Names(model), len(changes)
            for weight, norms in _candidates(model, refusals).items():
                if reason := _why_not_together(weight, norms) or _fold(weight, norms, names):
                    refusals.extend(Refusal(reason, describe(norm)) for norm in norms)
                else:
                    changes.extend(_join(norm) for norm in norms)
            if len(changes) == before:
                return PassResult(tuple(changes), tuple(refusals))


def _candidates(model: ir.Model, refusals: list[Refusal]) -> dict[ir.Value, list[ir.Node]]:
    """Return the normalisations that can be folded, by the weight of the convolution before them."""
    found: dict[ir.Value, list[ir.Node]] = {}
    for norm in (node for graph in graphs(model) for node in graph if is_op(node, "BatchNormalization")):
        reason = _why_not_norm(norm) or _why_not_conv(norm) or _why_not_constants(norm)
        if reason:
            refusals.append(Refusal(reason, describe(norm)))
        else:
            found.setdefault(_operand(_conv(norm), 1), []).append(norm)
    return found


def _operand(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _conv(norm: ir.Node) -> ir.Node:
    producer = _operand(norm, 0).producer()
    assert producer is not None
    return producer


def _bias(conv: ir.Node) -> ir.Value | None:
    return conv.inputs[2] if len(conv.inputs) > 2 else None


def _array(value: ir.Value | None) -> Array:
    tensor = constant(value)
    assert tensor is not None
    return tensor.numpy().astype(np.float64)


def _why_not_norm(norm: ir.Node) -> str | None:
    if norm.attributes.get_int("training_mode", 0):
        return "training_mode is 1: it normalises with the statistics of the batch"
    if extra := [output.name for output in norm.outputs[1:] if output.name]:
        return f"its output '{extra[0]}' is computed too, as in training"
    if unknown := set(norm.attributes) - _ATTRIBUTES:
        return f"its attribute '{min(unknown)}' is not known"
    return None


def _why_not_conv(norm: ir.Node) -> str | None:
    source = _operand(norm, 0)
    conv = source.producer()
    if conv is None:
        return f"its input '{source.name}' is an input or a constant, not a convolution's output"
    if not is_op(conv, "Conv", "ConvTranspose"):
        return f"its input '{source.name}' comes from {conv.op_type}, not from a convolution"
    if conv.graph is not norm.graph:
        return f"the convolution's output '{source.name}' is a value of an outer graph"
    if source.is_graph_output():
        return f"the convolution's output '{source.name}' is an output of the graph"
    if len(source.uses()) > 1:
        return f"the convolution's output '{source.name}' is used {len(source.uses())} times"
    return None


def _why_not_constants(norm: ir.Node) -> str | None:
    conv = _conv(norm)
    roles = {"weight": conv.inputs[1], **dict(zip(_PARAMETERS, norm.inputs[1:], strict=True))}
    if _bias(conv) is not None:
        roles["convolution's bias"] = _bias(conv)
    for role, value in roles.items():
        if constant(value) is None:
            return f"the {role} '{value.name if value else ''}' is not a constant"
    weight = constant(roles.pop("weight"))
    if weight is None or weight.dtype not in _DTYPES:
        return f"the weight '{_operand(conv, 1).name}' is {weight and weight.dtype}"
    shape, group = weight.shape.numpy(), conv.attributes.get_int("group", 1)
    channels = shape[0] if is_op(conv, "Conv") else shape[1] * group
    for role, value in roles.items():
        if _array(value).shape != (channels,):
            return f"the {role} '{value.name if value else ''}' does not have {channels} elements"
    return None


def _why_not_together(weight: ir.Value, norms: list[ir.Node]) -> str | None:
    convs = {_conv(norm) for norm in norms}
    if weight.is_graph_output():
        return f"the weight '{weight.name}' is an output of the graph"
    if any(use.node not in convs or use.idx != 1 for use in weight.uses()):
        return f"the weight '{weight.name}' is shared by {len(weight.uses())} uses, not all of them foldable"
    if len({_scaling(norm) for norm in norms}) > 1:
        return f"the weight '{weight.name}' is shared by convolutions with different normalisations"
    return None


def _scaling(norm: ir.Node) -> Hashable:
    """Return what decides how the weight is scaled."""
    conv = _conv(norm)
    tensors = (constant(norm.inputs[1]), constant(norm.inputs[4]))
    digests = tuple(tensor and (tensor.dtype, digest(tensor)) for tensor in tensors)
    return (
        conv.op_type,
        conv.attributes.get_int("group", 1),
        norm.attributes.get_float("epsilon", 1e-5),
        digests,
    )


def scale_and_shift(norm: ir.Node) -> tuple[Array, Array]:
    """Return ``s`` and ``t`` with which the normalisation is ``x * s + t`` in each channel, in float64."""
    scale, bias, mean, variance = (_array(value) for value in norm.inputs[1:])
    epsilon = float(np.float32(norm.attributes.get_float("epsilon", 1e-5)))
    factor = scale / np.sqrt(variance + epsilon)
    return factor, bias - mean * factor


def scaled_weight(conv: ir.Node, weight: Array, factor: Array) -> Array:
    """Return ``weight`` with each output channel multiplied by its element of ``factor``.

    Conv has the output channels first; ConvTranspose has (inputs, outputs of one group, ...), and its inputs
    are in groups.
    """
    if is_op(conv, "Conv"):
        return weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    group = conv.attributes.get_int("group", 1)
    grouped = weight.reshape(group, -1, *weight.shape[1:])
    return (grouped * factor.reshape(group, 1, -1, *[1] * (weight.ndim - 2))).reshape(weight.shape)


def folded_bias(conv: ir.Node, factor: Array, shift: Array) -> Array:
    """Return the bias of the folded convolution."""
    return shift if _bias(conv) is None else _array(_bias(conv)) * factor + shift


def _fold(weight: ir.Value, norms: list[ir.Node], names: Names) -> str | None:
    """Write the folded weight and biases into the convolutions; return a reason if they do not exist."""
    dtype = weight.const_value.dtype.numpy() if weight.const_value else None
    with np.errstate(all="ignore"):
        factors = [scale_and_shift(norm) for norm in norms]
        scaled = scaled_weight(_conv(norms[0]), _array(weight), factors[0][0]).astype(dtype)
        biases = [folded_bias(_conv(n), *f).astype(dtype) for n, f in zip(norms, factors, strict=True)]
    if not all(np.isfinite(array).all() for array in (scaled, *biases)):
        return f"the weight '{weight.name}' or a bias would not be finite in {dtype}"
    weight.metadata_props[SOURCE] = ",".join(sources([weight, norms[0].inputs[1], norms[0].inputs[4]]))
    weight.const_value = ir.Tensor(scaled, name=weight.name)
    for norm, bias in zip(norms, biases, strict=True):
        _set_bias(_conv(norm), norm, bias, names)
    return None


def _set_bias(conv: ir.Node, norm: ir.Node, array: Array, names: Names) -> None:
    old = _bias(conv)
    name = names.fresh(f"{_operand(conv, 1).name}_folded_bias")
    value = new_initializer(name, ir.Tensor(array), sources([old, *norm.inputs[1:]]))
    assert conv.graph is not None
    conv.graph.initializers.add(value)
    conv.resize_inputs(3)
    conv.replace_input_with(2, value)
    if gone := discard_dead_initializers([old]):
        value.name = gone[0]


def _join(norm: ir.Node) -> str:
    """Remove the folded normalisation; return the line that says so."""
    conv, parameters = _conv(norm), norm.inputs[1:]
    line = f"{place(conv)}: {conv.op_type} + BatchNormalization -> {conv.op_type}"
    take_over(conv.outputs[0], norm.outputs[0])
    remove(norm)
    discard_dead_initializers(parameters)
    return line
