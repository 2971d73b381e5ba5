"""An ONNX file as a source: what its inputs and outputs are, and example inputs if none were given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import external_data
from onnx_ir.passes import common as passes

from aotc import tree
from aotc.errors import RefusedError
from aotc.export.dim_names import free_dim_name
from aotc.export.importer import DTYPES, free_dim_note
from aotc.export.onnx_dims import find_equal_dims, merge_dims, note
from aotc.export.onnx_example import (
    Feeds,
    Run,
    accepts,
    draw_indices,
    find_example,
    find_ranges,
    given_example,
)
from aotc.export.onnx_file import read_onnx
from aotc.export.source import as_given
from aotc.export.upgrade import join_softmax, upgrade
from aotc.ir import scopes
from aotc.ir.edit import Names
from aotc.ir.walk import graphs
from aotc.signature import Argument, Bounds, Signature, TensorSpec, parse_profiles

Array = np.ndarray[Any, Any]

_DRAWN = "no inputs were given: the example was drawn; give real ones with --inputs FILE.npz"
_UNNAMED = frozenset({"", "?", "None", "-1", "unk", "unknown"})
"""What producers write for an axis of which they know nothing: two of them are not the same dim."""


@dataclasses.dataclass(frozen=True)
class OnnxSource:
    """An ONNX file, with example inputs by input name and a profile for some dims, if the user gave any."""

    file: Path
    inputs: Feeds | None = None
    profile: Mapping[str, tuple[int, int, int]] = dataclasses.field(default_factory=dict)
    accuracy: ClassVar[None] = None
    """A file has no metric of its own."""
    assets: ClassVar[tuple[Path, ...]] = ()
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """Name of the bundle."""
        return self.file.resolve().parent.name if self.file.stem == "model" else self.file.stem

    @property
    def path(self) -> str:
        """The file as the user named it, for messages."""
        return str(self.file)

    @property
    def given(self) -> str:
        """Return the source as the command line takes it, with its own options."""
        return as_given(
            self.file, self.profile, *(["--inputs INPUTS.npz"] if self.inputs is not None else [])
        )


@dataclasses.dataclass(frozen=True)
class ImportedOnnx:
    """What the import of an ONNX file hands on."""

    model: ir.Model
    signature: Signature
    example: Feeds
    notes: tuple[str, ...]


def import_onnx(source: OnnxSource, proto: onnx.ModelProto, run: Run) -> ImportedOnnx:
    """Describe the checked file ``proto`` and bring its graph to the compiler's own opset.

    Args:
        source: Where it comes from.
        proto: The parsed file; the graph shares its weights.
        run: Runs the untouched file, which says what inputs it accepts and what its outputs are.

    Raises:
        RefusedError: Something in it cannot be compiled; says what and why.
        UsageError: The inputs or dims that were given do not fit it.
    """
    try:
        model = ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        cause = error.__cause__ or error
        raise RefusedError(
            f"the file cannot be read: {cause}", slug="onnx-file", where=source.path
        ) from error
    external_data.set_base_dir(model.graph, source.file.parent)
    inputs = _input_specs(model)
    model = upgrade(model)
    _separate_outputs(model)
    signature = Signature(
        arguments=_arguments(inputs), inputs=inputs, outputs=(), result=tree.Dict(kind="dict", entries=())
    )
    profiles = parse_profiles([source.profile] if source.profile else [], signature.dims)
    # Some kernels end the process on an empty axis (LSTM), so size 0 is refused unless a profile asks for it.
    bounds = {name: Bounds(min=1) for name in signature.dims if name not in source.profile}
    signature = signature.model_copy(update={"profiles": profiles, "bounds": bounds})
    given = given_example(source.inputs, signature) if source.inputs is not None else None
    example = find_example(signature, run, given)
    equal = find_equal_dims(signature, example, lambda feeds: accepts(run, feeds))
    signature = merge_dims(signature, equal)
    _infer_shapes(model, signature.inputs)
    join_softmax(model)
    signature = find_ranges(signature, model, example, run)
    if given is None:
        example = draw_indices(signature, example, run)
    signature = _with_outputs(signature, model, run(example), signature.check(example))
    name_scopes(model)
    notes = (
        *([_DRAWN] if given is None else []),
        *(note(later, earlier) for later, earlier in equal.items()),
        *(free_dim_note(name) for name in signature.dims if not any(name in p for p in signature.profiles)),
    )
    return ImportedOnnx(model, signature, example, notes)


def read_source(source: OnnxSource) -> onnx.ModelProto:
    """Parse and check the file of ``source``.

    Raises:
        UsageError: There is no such file.
        RefusedError: It is no valid ONNX file, or not all its inputs and outputs are tensors of numbers.
    """
    proto = read_onnx(source.file)
    try:
        _refuse_interface(proto)
    except RefusedError as error:
        error.where = source.path
        raise
    return proto


def _refuse_interface(proto: onnx.ModelProto) -> None:
    constants = {tensor.name for tensor in proto.graph.initializer}
    values = [("input", v) for v in proto.graph.input if v.name not in constants]
    if not values:
        raise RefusedError("the file has no inputs: it computes a constant", slug="onnx-interface")
    for kind, value in [*values, *(("output", v) for v in proto.graph.output)]:
        form = (value.type.WhichOneof("value") or "untyped").removesuffix("_type")
        if form != "tensor":
            raise RefusedError(
                f"the {kind} '{value.name}' is {'an' if form[0] in 'aeiou' else 'a'} {form} and no tensor",
                slug="onnx-interface",
                hint="export the model with tensors as inputs and outputs",
            )
        if _dtype(value) is None:
            number = value.type.tensor_type.elem_type
            known = onnx.TensorProto.DataType.values()
            element = (
                onnx.TensorProto.DataType.Name(number).lower() if number in known else f"of type {number}"
            )
            raise RefusedError(
                f"the {kind} '{value.name}' is {element}, which no array of this runtime holds",
                slug="unsupported-dtype",
                hint="export the model with a cast at its edge",
            )


def has_interface(proto: onnx.ModelProto, signature: Signature) -> bool:
    """Return whether the file has the inputs of ``signature``, and outputs of the same types."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = [(v.name, _dtype(v)) for v in proto.graph.input if v.name not in constants]
    return inputs == [(spec.name, spec.dtype) for spec in signature.inputs] and [
        _dtype(value) for value in proto.graph.output
    ] == [spec.dtype for spec in signature.outputs]


def _dtype(value: onnx.ValueInfoProto) -> str | None:
    return {int(dtype): name for dtype, name in DTYPES.items()}.get(value.type.tensor_type.elem_type)


def _input_specs(model: ir.Model) -> tuple[TensorSpec, ...]:
    """Return the inputs with a name for every dynamic axis, and give the graph's inputs the same shapes.

    A name that can be a dim's is kept; an axis without one is named after its input.
    """
    wanted = {_name_of(dim) for value in _inputs(model) for dim in value.shape or ()} - _UNNAMED
    kept: dict[str, str] = {}
    for name in sorted(wanted, key=lambda name: (free_dim_name(name, ()) != name, name)):
        kept[name] = free_dim_name(name, kept.values())
    taken = set(kept.values())
    specs = []
    for value in _inputs(model):
        shape: list[int | str] = []
        assert value.shape is not None  # the checker demands it
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, int) and dim >= 0:
                shape.append(dim)
                continue
            name = kept.get(_name_of(dim)) or free_dim_name(f"{value.name}_{axis}", taken)
            taken.add(name)
            shape.append(name)
        value.shape = ir.Shape(shape)
        assert value.dtype is not None
        specs.append(TensorSpec(name=str(value.name), dtype=DTYPES[value.dtype], shape=tuple(shape)))
    return tuple(specs)


def _inputs(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if not value.is_initializer()]


def _name_of(dim: int | ir.SymbolicDim) -> str:
    return "" if isinstance(dim, int) else str(dim.value or "")


def _infer_shapes(model: ir.Model, inputs: tuple[TensorSpec, ...]) -> None:
    """Label every value with the shape that follows from the inputs; what the file says of it is dropped.

    The names that a producer gave to inner dims mean nothing to anyone else, and may be wrong.
    """
    for graph in graphs(model):
        for value in (output for node in graph for output in node.outputs):
            value.shape = None
        for value in graph.inputs:  # the body of a loop needs the ranks of its inputs
            if value.shape is not None:
                value.shape = ir.Shape([dim if isinstance(dim, int) else None for dim in value.shape])
    for value, spec in zip(model.graph.inputs, inputs, strict=True):
        value.shape = ir.Shape(spec.shape)
    passes.ShapeInferencePass(check_type=False, strict_mode=False)(model)


def _separate_outputs(model: ir.Model) -> None:
    """Give an output that is an input or a constant a value of its own.

    An output that is called like an input becomes ``output.NAME``: a graph has one name space.
    """
    names = Names(model)
    for index, value in enumerate(list(model.graph.outputs)):
        if not (value.is_graph_input() or value.is_initializer()):
            continue
        node = ir.node("Identity", [value], name=names.fresh(f"output_{index}"))
        node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
        wanted = str(value.name)
        if value.is_graph_input():
            wanted = names.fresh(f"output.{wanted}")
        else:
            value.name = names.fresh(f"{wanted}.inner")
        node.outputs[0].name = wanted
        model.graph.append(node)
        model.graph.outputs[index] = node.outputs[0]


def _arguments(inputs: Iterable[TensorSpec]) -> tuple[Argument, ...]:
    return tuple(Argument(name=s.name, kind="positional", tree=tree.TensorLeaf(name=s.name)) for s in inputs)


def _with_outputs(
    signature: Signature, model: ir.Model, outputs: Sequence[Array], sizes: Mapping[str, int]
) -> Signature:
    """Describe the outputs; a size is only named or fixed where a run of the file agrees."""
    specs = []
    for value, array in zip(model.graph.outputs, outputs, strict=True):
        shape = [
            size if _agrees(size, array.shape[axis], sizes) else free_dim_name(f"{value.name}_{axis}", sizes)
            for axis, size in enumerate(_inferred(value, array.ndim))
        ]
        value.shape, value.type = ir.Shape(shape), ir.TensorType(ir.DataType.from_numpy(array.dtype))
        specs.append(TensorSpec(name=str(value.name), dtype=array.dtype.name, shape=tuple(shape)))
    result = tree.Dict(kind="dict", entries=tuple((s.name, tree.TensorLeaf(name=s.name)) for s in specs))
    known = {name: getattr(signature, name) for name in Signature.model_fields}
    return Signature.model_validate({**known, "outputs": specs, "result": result})


def _inferred(value: ir.Value, rank: int) -> list[int | str]:
    if value.shape is None or value.shape.rank() != rank:
        return [""] * rank
    return [dim if isinstance(dim, int) else str(dim.value or "") for dim in value.shape]


def _agrees(size: int | str, found: int, sizes: Mapping[str, int]) -> bool:
    return size == found if isinstance(size, int) else sizes.get(size) == found


def name_scopes(model: ir.Model) -> None:
    """Take module paths from node names such as ``/encoder/layer.0/MatMul`` where the exporter noted none."""
    for node in model.graph.all_nodes():
        path = [part for part in (node.name or "").split("/") if part]
        if len(path) > 1 and scopes.SCOPES not in node.metadata_props:
            node.metadata_props[scopes.SCOPES] = repr(["", ".".join(path[:-1]), path[-1]])
