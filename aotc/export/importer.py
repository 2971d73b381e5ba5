"""The import stage: an eager module and its example inputs -> ``ir.Model`` and signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from aotc import dims, tree
from aotc.errors import InputError, RefusedError, UsageError
from aotc.export import guards
from aotc.export.axes import Axes, flatten_dynamic_shapes
from aotc.export.call import BoundCall, bind, rebuild
from aotc.export.dim_names import StaticAxis, rename_symbols
from aotc.export.equal_dims import find_equal_dims, merge_bounds, note
from aotc.export.example import tensors_to_trace
from aotc.export.index_guards import drop_needless_guards
from aotc.export.index_ranges import Raises, find_index_ranges
from aotc.export.module_state import unchanged
from aotc.export.refusals import traceback_line
from aotc.export.source import Source
from aotc.export.stream import RunFlat, later_steps, with_state
from aotc.export.to_onnx import rename_dims, to_onnx
from aotc.export.trace import Trace, trace
from aotc.signature import IndexRange, Signature, TensorSpec, parse_profiles

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
DTYPES = {
    ir.DataType.BOOL: "bool",
    ir.DataType.FLOAT: "float32",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.DOUBLE: "float64",
    ir.DataType.INT8: "int8",
    ir.DataType.INT16: "int16",
    ir.DataType.INT32: "int32",
    ir.DataType.INT64: "int64",
    ir.DataType.UINT8: "uint8",
    ir.DataType.UINT16: "uint16",
    ir.DataType.UINT32: "uint32",
    ir.DataType.UINT64: "uint64",
}


@dataclasses.dataclass(frozen=True)
class Imported:
    """What the import stage hands on. The model's initialisers share memory with the module.

    ``program`` is what the model was translated from.
    """

    model: ir.Model
    program: ExportedProgram
    signature: Signature
    call: BoundCall
    notes: tuple[str, ...]

    def rebuild(self, tensors: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Turn tensors by input name into the arguments of forward."""
        return rebuild(self.call, tensors)


def import_module(module: nn.Module, source: Source) -> Imported:
    """Trace, translate and describe ``module``; it is left as it was.

    Raises:
        RefusedError: This model cannot be compiled; says which part and why.
        UsageError: Inputs, dynamic_shapes or profiles do not fit forward.
    """
    guards.refuse_module(module)
    guards.refuse_training(module)
    call = bind(module, source.inputs)
    if not call.flat:
        raise UsageError("the example inputs hold no tensor", slug="source")
    observed = [call.flat, *(bind(module, inputs).flat for inputs in source.more_inputs)]
    axes = flatten_dynamic_shapes(source.dynamic_shapes, call.arguments)
    try:
        traced, static = _trace(module, call, observed, axes)
    except RefusedError as error:
        if error.name == "export":
            _run_once(module, call)  # a model that eager itself cannot run is no fault of torch.export
        raise
    _run_once(module, call)
    inputs = list(call.flat)
    result = _distinct_outputs(traced.result, set(inputs))
    outputs = [leaf.name for leaf in tree.leaves(result)]
    if not outputs:
        raise RefusedError(
            "forward returns no tensor",
            slug="result-structure",
            hint="return what the engine should compute",
        )
    guards.refuse_complex(traced.program, inputs, outputs)
    model, program = to_onnx(traced, inputs, outputs)
    profiled: set[str] = set().union(*source.profiles)
    equal = find_equal_dims(_shapes(model.graph.inputs), observed, traced.dims.anonymous - profiled)
    rename_dims(model.graph, equal)
    signature = Signature(
        arguments=call.arguments,
        inputs=_specs(model.graph.inputs, call),
        outputs=_specs(model.graph.outputs, None),
        result=result,
        guards=tuple(rename_symbols(guard, equal) for guard in traced.guards),
        bounds=merge_bounds(traced.bounds, equal),
    )
    _refuse_unbound_dims(signature)
    signature = with_state(_with_profiles(signature, source), source.state)
    notes = (
        *map(str, static),
        *(note(later, earlier) for later, earlier in equal.items()),
        *(free_dim_note(name) for name in signature.dims if not any(name in p for p in signature.profiles)),
    )
    return Imported(model, program, signature, call, notes)


def _trace(
    module: nn.Module, call: BoundCall, observed: Sequence[Mapping[str, torch.Tensor]], axes: Axes
) -> tuple[Trace, tuple[StaticAxis, ...]]:
    """Trace with sizes of at least 2 on dynamic axes; also return the axes that were found static.

    An axis left to the exporter that was widened and then fixed by the model, as an axis that broadcasts is,
    is traced again as it was in the example.
    """
    traced = trace(module, call, tensors_to_trace(observed, axes), axes)
    static = traced.dims.static
    misled = {(s.input, s.axis) for s in static if call.flat[s.input].shape[s.axis] != s.size}
    if misled:
        kept = {
            name: {index: axis for index, axis in found.items() if (name, index) not in misled}
            for name, found in axes.items()
        }
        traced = trace(module, call, tensors_to_trace(observed[:1], kept), kept)
    return traced, static


def _run_once(module: nn.Module, call: BoundCall) -> None:
    """Run eager on the example: only a real run shows every way to store state, and whether it accepts it."""
    import torch

    args, kwargs = rebuild(call, {name: tensor.detach().clone() for name, tensor in call.flat.items()})
    try:
        with unchanged(module), torch.inference_mode():
            module(*args, **kwargs)
    except RefusedError:
        raise
    except Exception as error:
        raise UsageError(
            f"eager refuses the example inputs: {type(error).__name__}: {error}",
            slug="eager-refuses",
            where=traceback_line(error),
            hint="correct inputs()",
        ) from error


def given_inputs(
    source: Source, module: nn.Module, signature: Signature, run: RunFlat
) -> list[tuple[str, bool, Feeds]]:
    """Return (label, valid, flat inputs) of everything that the source gives, the example first.

    If it has state, the next steps of the example's stream come last; ``run`` runs eager for them.

    Raises:
        UsageError: more_inputs() do not fit forward or the signature, or eager refuses its own state.
    """
    named = [("example", True, source.inputs)]
    named += [(f"more_inputs[{i}]", True, inputs) for i, inputs in enumerate(source.more_inputs)]
    named += [(f"bad_inputs[{i}]", False, inputs) for i, inputs in enumerate(source.bad_inputs)]
    result = []
    for label, valid, inputs in named:
        bound = bind(module, inputs).bound
        try:
            flat = signature.flatten_call(*bound.args, **bound.kwargs)
            # Copied: a forward that writes into its input must not change what the engine is given.
            feeds = {name: tensor.detach().cpu().numpy().copy(order="C") for name, tensor in flat.items()}
            if valid:
                signature.check(feeds)
        except InputError as error:
            raise UsageError(
                f"{label} does not fit the signature: {error.message}",
                slug="source",
                hint=error.hint or "correct it, or widen dynamic_shapes and profiles",
            ) from error
        result.append((label, valid, feeds))
    return result + later_steps(result[0][2], signature, run)


def with_index_ranges(imported: Imported, raises: Raises) -> Imported:
    """Find the range of every index input; ``raises`` runs eager on flat inputs."""
    example = {name: tensor.detach().numpy() for name, tensor in imported.call.flat.items()}
    sizes = imported.signature.check(example)
    ranges: dict[str, IndexRange] = find_index_ranges(imported.model, example, sizes, raises)
    drop_needless_guards(imported.model, ranges)
    specs = tuple(
        spec.model_copy(update={"range": ranges.get(spec.name)}) for spec in imported.signature.inputs
    )
    return dataclasses.replace(imported, signature=imported.signature.model_copy(update={"inputs": specs}))


def _distinct_outputs(result: tree.Tree, inputs: set[str]) -> tree.Tree:
    """An ONNX graph has one name space: an output that is called like an input becomes ``output.NAME``."""
    taken = inputs | {leaf.name for leaf in tree.leaves(result)}

    def distinct(name: str) -> str:
        new = name
        while new in inputs or (new != name and new in taken):
            new = f"output.{new}"
        return new

    return tree.rename(result, distinct)


def _specs(values: Any, call: BoundCall | None) -> tuple[TensorSpec, ...]:
    """Return the specs of graph inputs or outputs.

    Axes that the user left static keep the example's size also where the exporter has no number for them.
    """
    specs = []
    for value in values:
        if value.dtype not in DTYPES:
            raise RefusedError(
                f"'{value.name}' is {str(value.dtype).lower()}, which no array of this runtime holds",
                slug="unsupported-dtype",
                hint="cast it to float32 in forward",
            )
        shape = [_size(dim, f"{value.name}_{axis}") for axis, dim in enumerate(value.shape)]
        if call is not None:
            example = call.flat[value.name].shape
            shape = [
                size if isinstance(size, str) else int(want)
                for size, want in zip(shape, example, strict=True)
            ]
        specs.append(TensorSpec(name=value.name, dtype=DTYPES[value.dtype], shape=tuple(shape)))
    return tuple(specs)


def _shapes(values: Any) -> dict[str, tuple[int | str, ...]]:
    return {
        value.name: tuple(_size(dim, f"{value.name}_{axis}") for axis, dim in enumerate(value.shape))
        for value in values
    }


def _size(dim: Any, unknown: str) -> int | str:
    if isinstance(dim, int):
        return dim
    return str(dim.value) if dim.value is not None else unknown.replace(".", "_")


def _refuse_unbound_dims(signature: Signature) -> None:
    """Refuse a symbol that no axis is alone: the runtime could not tell its size.

    Raises:
        RefusedError: Says which.
    """
    alone = {size for spec in signature.inputs for size in spec.shape if dims.is_symbol(size)}
    for spec in signature.inputs:
        for size in spec.shape:
            if unknown := dims.symbols(size) - alone:
                raise RefusedError(
                    f"an axis of the input '{spec.name}' is '{size}', and no axis is '{min(unknown)}' alone",
                    slug="specialised-dim",
                    hint=f"give the axis a Dim of its own, or name '{min(unknown)}' on an input's axis",
                )


def free_dim_note(name: str) -> str:
    """Return what a build says of a dim that no profile limits."""
    return f"'{name}' has no profile: every size is accepted, few are verified (aotc inspect lists them)"


def _with_profiles(signature: Signature, source: Source) -> Signature:
    profiles = parse_profiles(source.profiles, signature.dims)
    for profile in profiles:
        for name, allowed in profile.items():
            bounds = signature.bounds.get(name)
            if bounds is not None and bounds.max is not None and allowed.max > bounds.max:
                raise UsageError(
                    f"the profile allows '{name}' up to {allowed.max}, the model only up to {bounds.max}",
                    slug="profile",
                    hint=f"set its max to {bounds.max}, or lift the limit in the model or in dynamic_shapes",
                )
    # A lower limit is what the trace assumed; a profile that goes below it is verified there.
    lowest = {name: min(p[name].min for p in profiles if name in p) for name in set().union(*profiles)}
    wider = {
        name: known.model_copy(update={"min": min(known.min, lowest.get(name, known.min))})
        for name, known in signature.bounds.items()
    }
    return signature.model_copy(update={"profiles": profiles, "bounds": wider})
