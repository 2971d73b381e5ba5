"""Which nodes compute in float16: by what they are, and by the range of the constants that they read."""

from __future__ import annotations

import dataclasses
import enum
import functools

import numpy as np
import onnx_ir as ir

from aotc.ir.constants import constant
from aotc.ir.walk import is_op, subgraphs
from aotc_passes.quantise._fp16_types import Types

_LARGEST, _SMALLEST = float(np.finfo(np.float16).max), float(np.finfo(np.float16).smallest_normal)
_WHOLE = 2048.0
"""Up to here float16 has every whole number."""
_FILLED = ("Add", "Max", "Min", "Mul", "Sub", "Where")

_FULL = frozenset(
    {
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Cast",
        "CastLike",
        "Ceil",
        "Cos",
        "Cosh",
        "CumProd",
        "CumSum",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Exp",
        "Floor",
        "GRU",
        "GridSample",
        "GroupNormalization",
        "InstanceNormalization",
        "LSTM",
        "Log",
        "LogSoftmax",
        "LpNormalization",
        "MeanVarianceNormalization",
        "Mod",
        "Pow",
        "QuantizeLinear",
        "RNN",
        "Range",
        "Reciprocal",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Round",
        "Sin",
        "Sinh",
        "Softmax",
        "Softplus",
        "Sqrt",
        "Tan",
        "TopK",
    }
)
"""Operators that stay in float32: torch.autocast's, and those that round, sort, quantise or keep a state."""

_BOUNDED = frozenset(
    {
        "Attention",
        "Cos",
        "Erf",
        "Exp",
        "GroupNormalization",
        "HardSigmoid",
        "InstanceNormalization",
        "LayerNormalization",
        "LpNormalization",
        "RMSNormalization",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softmax",
        "Softsign",
        "Tanh",
    }
)
"""Operators whose first result float16 holds whatever a constant among their inputs was."""

_KEEP_SMALL = frozenset(
    {
        "Abs",
        "Add",
        "Clip",
        "Concat",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Max",
        "Min",
        "Neg",
        "Pow",
        "Reciprocal",
        "ReduceMax",
        "ReduceMin",
        "Reshape",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Sum",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
    }
)
"""Operators behind which a small number (an epsilon) still decides; others divide or multiply by it."""


class Far(enum.Flag):
    """How a value depends on constants that float16 does not hold."""

    NO = 0
    LARGE = enum.auto()
    SMALL = enum.auto()


@dataclasses.dataclass(frozen=True)
class Kept:
    """A node that stays in float32 because of what it reads or is."""

    node: ir.Node
    reason: str


@dataclasses.dataclass
class Plan:
    """Nodes that compute in float16, with the inputs that they then read as such; their results that are."""

    halves: dict[ir.Node, list[int]] = dataclasses.field(default_factory=dict)
    values: set[ir.Value] = dataclasses.field(default_factory=set)
    kept: list[Kept] = dataclasses.field(default_factory=list)


def decide(graph: ir.Graph, types: Types) -> Plan:
    """Return what of ``graph`` computes in float16; nothing is changed."""
    plan, far, angles = Plan(), dict[ir.Value, Far](), _angles(graph, types)
    for node in graph:
        reads = [value for value in node.inputs if value is not None]
        each = [far.get(value) or _of_constant(node, value, types) for value in reads]
        found = functools.reduce(Far.__or__, each, Far.NO)
        far.update(dict.fromkeys(node.outputs, _passed_on(node, found)))
        far.update(dict.fromkeys(node.outputs[1:], found))
        if any(True for _ in subgraphs(node)):
            plan.kept.append(Kept(node, "it has subgraphs"))
        elif (inputs := _half_inputs(node, types)) and node not in angles:
            reason = _why_not(node, found, types)
            if reason is not None:
                plan.kept.append(Kept(node, reason))
            elif outputs := types.half_outputs(node):
                plan.halves[node] = inputs
                plan.values.update(outputs)
    return plan


def _half_inputs(node: ir.Node, types: Types) -> list[int]:
    """Return the float32 inputs of a node that may compute in float16; all where that is not known."""
    if node.domain == "" and node.op_type in _FULL:
        return []
    if types.half_outputs(node) is None:
        return [index for index, value in enumerate(node.inputs) if types.is_float32(value)]
    return types.half_inputs(node)


def _passed_on(node: ir.Node, found: Far) -> Far:
    if node.op_type in _BOUNDED:
        return Far.NO
    return found if node.op_type in _KEEP_SMALL else found & Far.LARGE


def _why_not(node: ir.Node, found: Far, types: Types) -> str | None:
    reads = [value for value in node.inputs if value is not None]
    if types.half_outputs(node) is None:
        return "it is not known to take float16"
    if unknown := [value.name for value in reads if types.of(value) is None]:
        return f"the type of '{unknown[0]}' is not known"
    if not found:
        return None
    direct = next((value for value in reads if _of_constant(node, value, types)), None)
    if direct is None:
        kind = "large" if found & Far.LARGE else "small"
        return f"it reads what comes from a number that is too {kind} for float16"
    size = _size(direct)
    limit = f"float16 is exact from {_SMALLEST:.2g} on"
    if found & Far.LARGE:
        limit = f"float16 ends at {_LARGEST:g}" if size > _LARGEST else f"float16 counts to {_WHOLE:g}"
    return f"'{direct.name}' holds at most {size:.3g}, and {limit}"


def _of_constant(node: ir.Node, value: ir.Value, types: Types) -> Far:
    """Return whether a float32 constant that ``node`` reads is beyond float16's range; infinities are not.

    A single number that is added, or fills a mask, must leave room for what it is added to: scores vanish
    beside -10000, whose neighbours in float16 are 8 apart.
    """
    if not types.is_float32(value) or (tensor := constant(value)) is None:
        return Far.NO
    size = _size(value)
    if size > _LARGEST or (size > _WHOLE and tensor.size == 1 and is_op(node, *_FILLED)):
        return Far.LARGE
    return Far.SMALL if 0 < size < _SMALLEST else Far.NO


def _size(value: ir.Value) -> float:
    """Return the largest finite absolute value of a constant."""
    tensor = constant(value)
    assert tensor is not None
    array = np.asarray(tensor.numpy())
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))


def _angles(graph: ir.Graph, types: Types) -> set[ir.Node]:
    """Return the nodes that make the angles of Sin and Cos out of integers and constants.

    A position times a frequency is a large number of which only the remainder counts.
    """
    counted: set[ir.Node] = set()
    for node in graph:
        values = [v for v in node.inputs if v is not None and types.of(v) in (None, ir.DataType.FLOAT)]
        if all(constant(v) is not None or v.producer() in counted for v in values) and not _looks_up(node):
            counted.add(node)
    found: set[ir.Node] = set()
    pending = [node for node in graph if is_op(node, "Sin", "Cos")]
    while pending:
        for value in pending.pop().inputs:
            producer = value.producer() if value is not None else None
            if producer is not None and producer in counted and producer not in found:
                found.add(producer)
                pending.append(producer)
    return found


def _looks_up(node: ir.Node) -> bool:
    """Return whether ``node`` reads rows of a table of weights, which is where a model's values begin."""
    return node.op_type in ("Gather", "GatherND") and constant(node.inputs[0]) is not None
