"""Which nodes compute in float16: by what their schemas take, and by the range of the constants they read."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterable

import numpy as np
import onnx
import onnx_ir as ir

from aotc.ir.constants import constant
from aotc.ir.walk import subgraphs

_FLOAT = ir.DataType.FLOAT
_LARGEST, _SMALLEST = float(np.finfo(np.float16).max), float(np.finfo(np.float16).smallest_normal)

FULL = frozenset(
    [
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Cast",
        "CastLike",
        "Cos",
        "Cosh",
        "CumProd",
        "CumSum",
        "Exp",
        "GroupNormalization",
        "InstanceNormalization",
        "Log",
        "LogSoftmax",
        "LpNormalization",
        "MeanVarianceNormalization",
        "Pow",
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
        "Sin",
        "Sinh",
        "Softmax",
        "Softplus",
        "Sqrt",
        "Tan",
    ]
)
"""Operators that stay in float32: those of torch.autocast, for which rounded inputs or sums cost most."""
_BOUNDED = frozenset(
    [
        "Attention",
        "Cos",
        "Erf",
        "Exp",
        "HardSigmoid",
        "LayerNormalization",
        "RMSNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "LpNormalization",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softmax",
        "Softsign",
        "Tanh",
    ]
)
"""Operators whose results float16 holds whatever a constant among their inputs was."""
_KEEP_SMALL = frozenset(
    [
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
    ]
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
    """Nodes that compute in float16, their results that are of that type, and what was kept from it."""

    halves: set[ir.Node] = dataclasses.field(default_factory=set)
    half_values: set[ir.Value] = dataclasses.field(default_factory=set)
    kept: list[Kept] = dataclasses.field(default_factory=list)


def decide(model: ir.Model) -> Plan:
    """Return what of the main graph of ``model`` computes in float16; only missing types are added."""
    plan, far, angles = Plan(), dict[ir.Value, Far](), _angles(model.graph)
    for node in model.graph:
        _complete_types(node, model.opset_imports.get(node.domain, 0))
        reads = [value for value in node.inputs if value is not None]
        found = functools.reduce(Far.__or__, (far.get(v) or _of_constant(v) for v in reads), Far.NO)
        passed_on = _passed_on(node, found)
        far.update(dict.fromkeys(node.outputs, passed_on))
        if not any(value.dtype == _FLOAT for value in reads) or node.op_type in FULL or node in angles:
            continue
        outputs = _half_outputs(node)
        reason = _why_not(node, found, outputs, reads)
        if reason is not None:
            plan.kept.append(Kept(node, reason))
        elif len(full_inputs(node)) < sum(value.dtype == _FLOAT for value in reads):
            plan.halves.add(node)
            plan.half_values.update(outputs or ())
    return plan


def _passed_on(node: ir.Node, found: Far) -> Far:
    if node.op_type in _BOUNDED:
        return Far.NO
    return found if node.op_type in _KEEP_SMALL else found & Far.LARGE


def _why_not(node: ir.Node, found: Far, outputs: list[ir.Value] | None, reads: list[ir.Value]) -> str | None:
    if any(True for _ in subgraphs(node)):
        return "it has subgraphs"
    if outputs is None:
        return "it is not known to take float16"
    if unknown := [str(v.name) for v in (*reads, *node.outputs) if v.dtype is None and v.name]:
        return f"the type of '{unknown[0]}' is not known"
    if found:
        direct = next((v for v in reads if _of_constant(v)), None)
        what = "a value of" if direct is None else f"'{direct.name}' holds"
        return f"{what} {_range_text(direct, found)}"
    return None


def _range_text(value: ir.Value | None, found: Far) -> str:
    if value is None:
        return f"a size that float16 does not have ({'large' if found & Far.LARGE else 'small'})"
    size = _size(value)
    if size > _LARGEST:
        return f"{size:.3g}, and float16 ends at {_LARGEST:g}"
    return f"{size:.3g} at most, and float16 is exact from {_SMALLEST:.2g} on"


def _of_constant(value: ir.Value) -> Far:
    """Return whether a float32 constant is beyond float16's range; infinities are not."""
    if value.dtype != _FLOAT or constant(value) is None:
        return Far.NO
    size = _size(value)
    if size > _LARGEST:
        return Far.LARGE
    return Far.SMALL if 0 < size < _SMALLEST else Far.NO


def _size(value: ir.Value) -> float:
    """Return the largest finite absolute value of a constant."""
    tensor = constant(value)
    assert tensor is not None
    array = np.asarray(tensor.numpy())
    return float(np.abs(array, where=np.isfinite(array), out=np.zeros_like(array)).max(initial=0.0))


def _angles(graph: ir.Graph) -> set[ir.Node]:
    """Return the nodes that make the angles of Sin and Cos out of integers and constants.

    A position times a frequency is a large number of which only the remainder counts.
    """
    counted: set[ir.Node] = set()
    for node in graph:
        values = [v for v in node.inputs if v is not None and v.dtype in (None, _FLOAT)]
        if all(constant(v) is not None or v.producer() in counted for v in values) and not _looks_up(node):
            counted.add(node)
    found: set[ir.Node] = set()
    pending = [node for node in graph if node.domain == "" and node.op_type in ("Sin", "Cos")]
    while pending:
        for value in pending.pop().inputs:
            producer = value.producer() if value is not None else None
            if producer in counted and producer is not None and producer not in found:
                found.add(producer)
                pending.append(producer)
    return found


def _looks_up(node: ir.Node) -> bool:
    """Return whether ``node`` reads rows of a table of weights, which is where a model's values begin."""
    return node.op_type in ("Gather", "GatherND") and constant(node.inputs[0]) is not None


@functools.lru_cache(maxsize=512)
def _schema(op_type: str, version: int, domain: str) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def _schema_of(node: ir.Node) -> onnx.defs.OpSchema | None:
    graph = node.graph
    version = graph.opset_imports.get(node.domain) if isinstance(graph, ir.Graph) else None
    return _schema(node.op_type, version, node.domain) if version is not None else None


def _formals(
    params: Iterable[onnx.defs.OpSchema.FormalParameter], count: int
) -> list[onnx.defs.OpSchema.FormalParameter]:
    """Return the formal parameter of each of ``count`` values; the last may stand for several."""
    known = list(params)
    return [known[min(index, len(known) - 1)] for index in range(count)] if known else []


def full_inputs(node: ir.Node) -> list[int]:
    """Return which float32 inputs of ``node`` take nothing else: the scales of Resize are always float32."""
    schema = _schema_of(node)
    if schema is None:
        return list(range(len(node.inputs)))
    formals = _formals(schema.inputs, len(node.inputs))
    return [
        index
        for index, (value, formal) in enumerate(zip(node.inputs, formals, strict=True))
        if value is not None and value.dtype == _FLOAT and "tensor(float16)" not in formal.types
    ]


def _half_outputs(node: ir.Node) -> list[ir.Value] | None:
    """Return the float32 results of ``node`` that are float16 if its inputs are; None if unknown."""
    schema = _schema_of(node)
    if schema is None:
        return None
    inputs = _formals(schema.inputs, len(node.inputs))
    full = full_inputs(node)
    types = {
        formal.type_str
        for index, (value, formal) in enumerate(zip(node.inputs, inputs, strict=True))
        if value is not None and value.dtype == _FLOAT and index not in full
    }
    found = []
    for value, formal in zip(node.outputs, _formals(schema.outputs, len(node.outputs)), strict=True):
        if value.dtype != _FLOAT or "tensor(float16)" not in formal.types:
            continue
        if formal.type_str not in types:
            return None
        found.append(value)
    return found


def _complete_types(node: ir.Node, version: int) -> None:
    """Give the results of ``node`` the types that its schema derives from those of its inputs."""
    schema = _schema(node.op_type, version, node.domain)
    if schema is None or all(value.dtype is not None for value in node.outputs):
        return
    known = {
        formal.type_str: value.dtype
        for value, formal in zip(node.inputs, _formals(schema.inputs, len(node.inputs)), strict=True)
        if value is not None and value.dtype is not None
    }
    for value, formal in zip(node.outputs, _formals(schema.outputs, len(node.outputs)), strict=True):
        if value.dtype is None and (dtype := _fixed(node, formal) or known.get(formal.type_str)):
            value.type = ir.TensorType(dtype)


def _fixed(node: ir.Node, formal: onnx.defs.OpSchema.FormalParameter) -> ir.DataType | None:
    """Return a result's type where the schema or the node itself says it."""
    if node.op_type == "Cast" and node.domain == "":
        return ir.DataType(node.attributes.get_int("to", 0))
    names = {"tensor(int64)": ir.DataType.INT64, "tensor(bool)": ir.DataType.BOOL, "tensor(float)": _FLOAT}
    return names.get(next(iter(formal.types))) if len(formal.types) == 1 else None
