"""Mutants of attributes: what a translation leaves at its default, or reads from the wrong place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
from mutate_edit import Site, Subject, title, with_attribute

_NORMS = ("LayerNormalization", "BatchNormalization", "GroupNormalization", "InstanceNormalization")
_EPSILON = 1e-5


def epsilon(s: Subject) -> Iterator[Site]:
    """Yield norms with the default epsilon for their own, or a tenth of it where theirs is the default."""
    for node in s.of(*_NORMS, "RMSNormalization"):
        own = node.attributes.get_float("epsilon", _EPSILON)
        other = _EPSILON / 10 if abs(own / _EPSILON - 1) < 1e-3 else _EPSILON
        yield f"{title(node)}: {own:.3g} to {other:.3g}", with_attribute(node, "epsilon", other)


_AXES = {"Softmax": -1, "LogSoftmax": -1, "Concat": 0, "Gather": 0, "Split": 0, "LayerNormalization": -1}
_AXES |= {"ArgMax": 0, "TopK": -1, "Hardmax": -1, "RMSNormalization": -1}


def axis(s: Subject) -> Iterator[Site]:
    """Yield the axis beside the right one."""
    for node in s.of(*_AXES):
        own = node.attributes.get_int("axis", _AXES[node.op_type])
        other = own - 1 if own else 1
        yield f"{title(node)}: axis {own} to {other}", with_attribute(node, "axis", other)


def gelu(s: Subject) -> Iterator[Site]:
    """Yield erf for tanh, and tanh for erf."""
    for node in s.of("Gelu"):
        own = node.attributes.get_string("approximate", "none")
        yield title(node), with_attribute(node, "approximate", "tanh" if own == "none" else "none")


def attention_scale(s: Subject) -> Iterator[Site]:
    """Yield 1 / d for 1 / sqrt(d), and the default for a scale of the model's own."""
    for node in s.of("Attention"):
        query = node.inputs[0]
        size = query.shape[-1] if query is not None and query.shape is not None else None
        if "scale" in node.attributes:

            def drop(node: ir.Node = node) -> None:
                del node.attributes["scale"]

            yield f"{title(node)}: scale dropped", drop
        if isinstance(size, int):
            yield f"{title(node)}: 1/{size}", with_attribute(node, "scale", 1.0 / size)


def causal(s: Subject) -> Iterator[Site]:
    """Yield attention that sees the future, or does not see it any more."""
    for node in s.of("Attention"):
        own = node.attributes.get_int("is_causal", 0)
        yield f"{title(node)}: is_causal {1 - own}", with_attribute(node, "is_causal", 1 - own)


_COEFFICIENTS = {"LeakyRelu": ("alpha", 0.01), "Elu": ("alpha", 1.0), "HardSigmoid": ("alpha", 0.2)}
_COEFFICIENTS |= {"Gemm": ("alpha", 1.0), "Selu": ("gamma", 1.0507), "HardSwish": ("alpha", 1.0)}


def coefficient(s: Subject) -> Iterator[Site]:
    """Yield slopes and factors times 1.01."""
    for node in s.of("LeakyRelu", "Elu", "HardSigmoid", "Gemm", "Selu"):
        name, default = _COEFFICIENTS[node.op_type]
        own = node.attributes.get_float(name, default)
        yield f"{title(node)}: {name} {own:.3g}", with_attribute(node, name, own * 1.01)


def windows(s: Subject) -> Iterator[Site]:
    """Yield padding moved from one side to the other, and other dilations with the padding they need."""
    for node in s.of("Conv", "ConvTranspose", "MaxPool", "AveragePool"):
        pads = list(node.attributes.get_ints("pads", []))
        rank = len(pads) // 2
        if any(pads[rank:]) and "auto_pad" not in node.attributes:
            moved = [pads[0] + pads[rank], *pads[1:rank], 0, *pads[rank + 1 :]]
            yield f"{title(node)}: pads {pads} to {moved}", with_attribute(node, "pads", moved)
        if node.attributes.get_string("auto_pad", "") == "SAME_UPPER":
            yield title(node), with_attribute(node, "auto_pad", "SAME_LOWER")
        if len(set(pads)) == 1 and pads[0] and node.op_type == "Conv":
            yield f"{title(node)}: dilations", _dilated(node, pads)


def _dilated(node: ir.Node, pads: list[int]) -> Any:
    factor = node.attributes.get_ints("dilations", [1] * (len(pads) // 2))[0]
    other = 1 if factor > 1 else 2

    def edit() -> None:
        with_attribute(node, "dilations", [other] * (len(pads) // 2))()
        with_attribute(node, "pads", [pad * other // factor for pad in pads])()

    return edit


_FLAGS: dict[str, tuple[tuple[str, int], ...]] = {
    "TopK": (("largest", 1),),
    "Trilu": (("upper", 1),),
    "CumSum": (("exclusive", 0), ("reverse", 0)),
    "GRU": (("linear_before_reset", 0),),
    "Gemm": (("transB", 0),),
    "AveragePool": (("count_include_pad", 0),),
}


def flag(s: Subject) -> Iterator[Site]:
    """Yield the other way of a switch: smallest for largest, the other triangle, weights transposed."""
    for node in s.of(*_FLAGS):
        for name, default in _FLAGS[node.op_type]:
            own = node.attributes.get_int(name, default)
            yield f"{title(node)}: {name} {1 - own}", with_attribute(node, name, 1 - own)


def direction(s: Subject) -> Iterator[Site]:
    """Yield recurrent layers that read their input from its other end."""
    for node in s.of("LSTM", "GRU", "RNN"):
        own = node.attributes.get_string("direction", "forward")
        if own != "bidirectional":
            other = "reverse" if own == "forward" else "forward"
            yield f"{title(node)}: {other}", with_attribute(node, "direction", other)


def permutation(s: Subject) -> Iterator[Site]:
    """Yield transpositions with their last two axes the other way."""
    for node in s.of("Transpose"):
        own = list(node.attributes.get_ints("perm", []))
        if len(own) > 1:
            other = [*own[:-2], own[-1], own[-2]]
            yield f"{title(node)}: {own} to {other}", with_attribute(node, "perm", other)
