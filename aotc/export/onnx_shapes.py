"""Labels of the inner values of an ONNX file: which sizes of the inputs their axes have.

onnx's own inference gives up at a Slice or a broadcast of unknown sizes, which is how old exporters spell
masks. ONNX Runtime's symbolic inference goes on, but takes unknown sizes that meet for equal. So it is
believed only where runs of the graph agree, and never against onnx's own inference.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from aotc import dims
from aotc.dims import Size
from aotc.errors import InputError, RefusedError
from aotc.export.onnx_example import Feeds, draw
from aotc.ir.edit import Names
from aotc.oracle import Oracle
from aotc.signature import Signature

_LARGE = 1024
"""Elements of the constants whose values say nothing of shapes."""
_OTHER_SIZES = (3, 5, 7, 11, 13)

Shapes = dict[str, list[Size | None]]


def label_shapes(model: ir.Model, signature: Signature, example: Feeds, oracle: Oracle) -> None:
    """Give values of the main graph the labels that onnx's inference left out, in place.

    Args:
        model: At the compiler's own opset, with the shapes of onnx's inference.
        signature: Of the graph's inputs.
        example: Inputs that it accepts.
        oracle: Runs it.
    """
    values = [v for node in model.graph for v in node.outputs if v.name and not v.is_graph_output()]
    unknown = {str(value.name): value for value in values if not _is_known(value.shape, signature)}
    if not unknown:
        return
    found = {name: shape for name, shape in _symbolic(model).items() if name in unknown}
    if not found:
        return
    observer, names = _shapes_of(model, [unknown[name] for name in found])
    runs = []
    for feeds in (example, draw(signature, _other_sizes(signature))):
        try:
            measured = oracle.run(observer, feeds)
            runs.append((signature.check(feeds), {name: measured[to].tolist() for name, to in names.items()}))
        except (RefusedError, InputError):
            continue
    for name, shape in found.items():
        _adopt(unknown[name], shape, [(sizes, measured[name]) for sizes, measured in runs])


def _is_known(shape: ir.Shape | None, signature: Signature) -> bool:
    """Return whether all dims of ``shape`` are sizes of the inputs; inference makes up names for others."""
    return shape is not None and all(
        isinstance(dim, int)
        or (dim.value is not None and dims.symbols(str(dim.value)) <= set(signature.dims))
        for dim in shape
    )


def _symbolic(model: ir.Model) -> Shapes:
    """Return what ONNX Runtime's symbolic inference says; nothing where it fails."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    copy = model.clone()
    for name, value in list(copy.graph.initializers.items()):
        if value.const_value is not None and value.const_value.size > _LARGE:
            del copy.graph.initializers[name]
            value.const_value = None
            copy.graph.inputs.append(value)
    logger = logging.getLogger("onnxruntime.tools.symbolic_shape_infer")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it warns of what it merges
    try:
        inferred = SymbolicShapeInference.infer_shapes(ir.to_proto(copy), auto_merge=True)
    except Exception:  # noqa: BLE001 - it fails in many ways; without labels passes say what they do not know
        return {}
    finally:
        logger.setLevel(level)
    shapes = {info.name: info.type.tensor_type.shape.dim for info in inferred.graph.value_info}
    return {
        name: [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in shape]
        for name, shape in shapes.items()
    }


def _shapes_of(model: ir.Model, values: Iterable[ir.Value]) -> tuple[ir.Model, dict[str, str]]:
    """Return a copy of ``model`` whose outputs are the shapes of ``values``, and their names by value."""
    copy = model.clone()
    known = ir.convenience.create_value_mapping(copy.graph, include_subgraphs=False)
    names, found = Names(copy), {}
    copy.graph.outputs.clear()
    for value in values:
        node = ir.node("Shape", [known[str(value.name)]])
        found[str(value.name)] = node.outputs[0].name = names.fresh(f"{value.name}.shape")
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([None])
        copy.graph.append(node)
        copy.graph.outputs.append(node.outputs[0])
    return copy, found


def _other_sizes(signature: Signature) -> dict[str, int]:
    """Return a size for every dim, different ones where their profiles allow it."""
    allowed = {name: sizes for profile in signature.profiles for name, sizes in profile.items()}
    chosen = {}
    for index, name in enumerate(signature.dims):
        wanted = _OTHER_SIZES[index % len(_OTHER_SIZES)]
        chosen[name] = min(max(wanted, allowed[name].min), allowed[name].max) if name in allowed else wanted
    return chosen


def _adopt(
    value: ir.Value, shape: list[Size | None], runs: list[tuple[Mapping[str, int], list[int]]]
) -> None:
    """Take the dims of ``shape`` that hold in all ``runs`` where ``value`` has none."""
    several = len({tuple(sizes.items()) for sizes, _ in runs}) > 1
    before = list(value.shape) if value.shape is not None else [None] * len(shape)
    if len(before) != len(shape) or not runs or any(len(measured) != len(shape) for _, measured in runs):
        return
    labels: list[int | str | None] = []
    for axis, (old, new) in enumerate(zip(before, shape, strict=True)):
        believed = new is not None and (several or not isinstance(new, int))
        holds = believed and all(_size(new or 0, sizes) == measured[axis] for sizes, measured in runs)
        kept = old if isinstance(old, int) or old is None else old.value
        labels.append(new if holds and not isinstance(old, int) else kept)
    value.shape = ir.Shape(labels)


def _size(size: Size, sizes: Mapping[str, int]) -> int | None:
    try:
        return dims.evaluate(size, sizes)
    except InputError:  # a symbol that inference made up
        return None
