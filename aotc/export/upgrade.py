"""A graph of any opset -> opset 24, by onnx's own version converter, which never sees the large weights."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.inliner
import onnx.shape_inference
import onnx.version_converter
import onnx_ir as ir
from onnx_ir.passes import common as passes

from aotc.errors import RefusedError
from aotc.export.to_onnx import OPSET
from aotc.ir import scopes
from aotc.ir.edit import discard, take_over
from aotc.ir.walk import graphs, is_op

_IR_VERSION = 10
_SMALL = 1024
"""Elements of the constants that the converter is shown: some adapters read them (Upsample's scales)."""
_FAILURES = (RuntimeError, onnx.version_converter.ConvertError, onnx.shape_inference.InferenceError)
_HARDMAX_13 = 13
_RESIZE_11 = 11
"""Before this opset Resize had no modes: it mapped coordinates by their ratio alone and rounded down."""


def upgrade(model: ir.Model) -> ir.Model:
    """Return ``model`` at opset 24, its functions inlined and its constants initialisers of the main graph.

    Operators of other domains stay as they are. Weights are not copied.

    Raises:
        RefusedError: An operator cannot be converted; says which node and why.
    """
    version = model.opset_imports.setdefault("", OPSET)
    _refuse_misread(model, version)
    passes.RemoveInitializersFromInputsPass()(model)
    _lift_constants(model)
    weights = _take_weights(model)
    metadata = {n.outputs[0].name: dict(n.metadata_props) for n in model.graph if n.outputs}
    # The converter takes an initialiser of a file older than this for an input.
    model.ir_version = _IR_VERSION
    proto = ir.to_proto(model)
    if proto.functions:
        proto = _inlined(proto)
    if version != OPSET:
        proto = _converted(proto)
    model = ir.from_proto(proto)
    for node in model.graph:
        if not node.metadata_props and node.outputs:
            node.metadata_props.update(metadata.get(node.outputs[0].name, {}))
    if version < _RESIZE_11:
        _keep_old_resize(model)
    _put_back(model, weights)
    _lift_constants(model)
    return model


def _lift_constants(model: ir.Model) -> None:
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    passes.LiftSubgraphInitializersToMainGraphPass()(model)
    # What was lifted from one branch may have the name of a value of another.
    passes.NameFixPass()(model)


def _take_weights(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Make the large constants of the main graph inputs without a value and return them by name."""
    taken = {}
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        assert tensor is not None
        if tensor.size > _SMALL and not value.is_graph_output():
            del model.graph.initializers[name]
            value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
            value.const_value = None
            model.graph.inputs.append(value)
            taken[name] = tensor
        elif isinstance(tensor, ir.ExternalTensor):
            value.const_value = ir.Tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=name)
    return taken


def _put_back(model: ir.Model, weights: Mapping[str, ir.TensorProtocol]) -> None:
    for value in [v for v in model.graph.inputs if v.name in weights]:
        model.graph.inputs.remove(value)
        value.const_value = weights[str(value.name)]
        model.graph.register_initializer(value)


def _inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.inliner.inline_local_functions(proto, convert_version=True)
    except RuntimeError as error:
        raise RefusedError(
            f"the functions of this file cannot be inlined: {_reason(error)}", slug="onnx-functions"
        ) from error


def _converted(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.version_converter.convert_version(proto, OPSET)
    except _FAILURES as error:
        if isinstance(error, onnx.shape_inference.InferenceError) and _forget_shapes(proto.graph):
            return _converted(proto)  # the shapes in the file were wrong
        node, why = _culprit(proto) or (None, error)
        what = "this file" if node is None else f"{node.op_type} '{node.name or node.output[0]}'"
        version = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), None)
        raise RefusedError(
            f"{what} cannot be converted from opset {version} to opset {OPSET}: {_reason(why)}",
            slug="onnx-opset",
            hint="export the model again at a newer opset",
        ) from error


def _forget_shapes(graph: onnx.GraphProto) -> bool:
    """Drop what the file says of shapes inside it; return whether it said anything."""
    infos = [*graph.value_info, *graph.output]
    known = [info for info in infos if info.type.tensor_type.HasField("shape")]
    for info in known:
        info.type.tensor_type.ClearField("shape")
    return bool(known)


def _culprit(proto: onnx.ModelProto) -> tuple[onnx.NodeProto, Exception] | None:
    """Return the first node that cannot be converted alone, and what the converter says of it."""
    typed = onnx.shape_inference.infer_shapes(proto)
    graph = typed.graph
    infos = {info.name: info for info in [*graph.value_info, *graph.input, *graph.output]}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        names = [name for name in dict.fromkeys(node.input) if name]
        inputs = [infos[name] for name in names if name in infos and name not in constants]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        known = [constants[name] for name in names if name in constants]
        alone = onnx.helper.make_graph([node], "alone", inputs, outputs, known)
        model = onnx.helper.make_model(alone, opset_imports=proto.opset_import, ir_version=proto.ir_version)
        try:
            onnx.version_converter.convert_version(model, OPSET)
        except _FAILURES as error:
            return node, error
    return None


def _reason(error: Exception) -> str:
    """Return the converter's own sentence without its file, line and assertion."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return text.rpartition(" failed: ")[2][:300]


def _refuse_misread(model: ir.Model, version: int) -> None:
    """Refuse what the converter carries over unchanged though its meaning changed.

    Raises:
        RefusedError: Names the node.
    """
    for graph in graphs(model):
        for node in graph:
            axis = node.attributes.get_int("axis", 1)
            if is_op(node, "Hardmax") and version < _HARDMAX_13 and axis != -1:
                raise RefusedError(
                    f"{scopes.describe(node)} takes all axes from {axis} on at opset {version}, "
                    f"and one axis from opset {_HARDMAX_13} on",
                    slug="onnx-opset",
                    hint=f"export the model again at opset {_HARDMAX_13} or later",
                )


def join_softmax(model: ir.Model) -> None:
    """Take the softmax of a last axis out of the matrix to which the converter flattens its input.

    Before opset 13 Softmax took all axes from one on; where that is the last, it means what it means today.

    Args:
        model: With shapes.
    """
    for graph in graphs(model):
        for node in [node for node in graph if is_op(node, "Softmax", "LogSoftmax")]:
            if (found := _flattened(node)) is not None:
                source, back = found
                flat = node.inputs[0]
                node.replace_input_with(0, source)
                node.attributes["axis"] = ir.AttrInt64("axis", -1)
                take_over(node.outputs[0], back.outputs[0])
                discard(back)
                if flat is not None and (producer := flat.producer()) is not None:
                    discard(producer)


def _flattened(softmax: ir.Node) -> tuple[ir.Value, ir.Node] | None:
    """Return what is flattened to rows for ``softmax``, and the Reshape that gives it its shape back."""
    flat = softmax.inputs[0].producer() if softmax.inputs[0] is not None else None
    uses = list(softmax.outputs[0].uses())
    if not is_op(flat, "Flatten") or len(uses) != 1 or not is_op(uses[0].node, "Reshape"):
        return None
    assert flat is not None
    source, back = flat.inputs[0], uses[0].node
    shape = back.inputs[1].producer() if back.inputs[1] is not None else None
    if source is None or source.shape is None or shape is None or not is_op(shape, "Shape"):
        return None
    rows = flat.attributes.get_int("axis", 1) in (-1, len(source.shape) - 1)
    return (source, back) if rows and shape.inputs[0] is source and not shape.attributes else None


def _keep_old_resize(model: ir.Model) -> None:
    """Give each Resize the modes that its old form had; the converter leaves it today's defaults."""
    for graph in graphs(model):
        for node in graph:
            if is_op(node, "Resize") and "coordinate_transformation_mode" not in node.attributes:
                modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
                for name, mode in modes.items():
                    node.attributes[name] = ir.AttrString(name, mode)
