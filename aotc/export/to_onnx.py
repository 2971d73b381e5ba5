"""ExportedProgram -> ir.Model: opset 24, the user's dims, the parameters' own names, scopes kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.export import guards
from aotc.export.data_checks import insert_data_checks
from aotc.export.float64 import keep_float64
from aotc.export.output_dtypes import restore_output_dtypes
from aotc.export.refusals import is_ours, refusal_of_exporter
from aotc.export.scalars import restore_scalars
from aotc.export.source import SOURCE_MODULE
from aotc.export.trace import Trace, quiet
from aotc.export.translations import translations
from aotc.ir import scopes

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

OPSET = 24
SOURCE = "aotc.source"
_WRAPPER = "module."
_WORD = re.compile(r"[^\W\d]\w*")
_FILE = re.compile(r'File "([^"]+)"')
_SIMPLIFY_ROUNDS = 2
_DATA_MOVEMENT_RULES = (
    "cast_constant_of_shape_rule",
    "cast_constant_of_shape_without_value_rule",
    "collapse_slice_rule",
    "collapse_slice2_rule",
    "flatten_to_reshape_rule",
    "materialize_reshape_shape_rule",
    "no_op_cast_rule",
    "no_op_expand_rule",
    "no_op_transpose_rule",
    "reshape_reshape_rule",
    "squeeze_reshape_1d_rule",
    "transpose_transpose_rule",
    "unsqueeze_unsqueeze_rule",
)


def to_onnx(trace: Trace, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[ir.Model, ExportedProgram]:
    """Translate a traced module.

    Args:
        trace: The traced module, still behind the flat wrapper.
        inputs: Names of the flat inputs, in order.
        outputs: Names of the flat outputs, in order.

    Returns:
        A model whose initialisers still share memory with the module's parameters, and the decomposed program
        that it is a translation of: its nodes have the names of the model's values.

    Raises:
        RefusedError: An operator has no translation.
    """
    import torch

    insert_data_checks(trace.program)
    names = [f"input.{i}" for i in range(len(inputs))], [f"output.{i}" for i in range(len(outputs))]
    try:
        with quiet(), torch.no_grad():
            program = torch.onnx.export(
                keep_float64(trace.program),
                dynamo=True,
                opset_version=OPSET,
                optimize=False,
                input_names=names[0],
                output_names=names[1],
                custom_translation_table=translations(),
                verbose=False,
            )
    except Exception as error:
        raise refusal_of_exporter(error, lambda op: _line_of(trace.program, op)) from error
    assert program is not None
    assert program.exported_program is not None
    model = program.model
    restore_scalars(model)
    restore_output_dtypes(model.graph, trace.program)
    _hide_wrapper(model)
    _fold_weight_transposes(model.graph)
    try:
        _simplify(model)
    except Exception as error:
        raise RefusedError(
            f"onnxscript cannot simplify this graph: {error}",
            slug="simplify",
            where=scopes.place_in_text(model, str(error)),
            hint="write that line in another way, or make the dims that it works on static",
        ) from error
    _finish_interface(model.graph, inputs, outputs)
    rename_dims(model.graph, trace.dims.names)
    return model, program.exported_program


def _line_of(program: ExportedProgram, op: str) -> str | None:
    """Return the line of the model's code that calls ``op``, or ``aten._X`` by its public name ``aten.X``."""
    names = (op, op.replace("aten._", "aten."))
    nodes = [n for n in program.graph.nodes if n.op == "call_function" and str(n.target).startswith(names)]
    return guards.stack_place(nodes[0]) if nodes else None


def _hide_wrapper(model: ir.Model) -> None:
    """Take the flat wrapper out of parameter names and scopes, and the op-level metadata that names it."""
    for value in list(model.graph.initializers.values()):
        if value.name and value.name.startswith(_WRAPPER):
            value.name = value.name.removeprefix(_WRAPPER)
        if value.name:
            value.metadata_props[SOURCE] = value.name
    for node in model.graph.all_nodes():
        for key in (scopes.SCOPES, scopes.CLASSES):
            if text := node.metadata_props.get(key):
                text = SOURCE_MODULE.sub("", text)
                node.metadata_props[key] = _without_wrapper(text, drop_first=key == scopes.CLASSES)
        if stack := node.metadata_props.get(scopes.STACK):
            node.metadata_props[scopes.STACK] = _portable_stack(stack)
        node.metadata_props.pop("namespace", None)


def _without_wrapper(text: str, *, drop_first: bool) -> str:
    """``['', 'module', 'module.fc', 'linear']`` -> ``['', 'fc', 'linear']``."""
    import ast

    entries = [str(entry) for entry in ast.literal_eval(text)]
    if drop_first:
        return repr(entries[1:])
    return repr([("" if e == "module" else e.removeprefix(_WRAPPER)) for e in entries[1:]])


def _portable_stack(stack: str) -> str:
    """Leave out our own frames, and what in a path is only true of this machine: same model, same bytes."""
    frames = re.split(r'(?=^\s*File ")', stack, flags=re.MULTILINE)
    return "".join(
        _FILE.sub(_portable_file, f) for f in frames if not (m := _FILE.search(f)) or not is_ours(m[1])
    )


def _portable_file(match: re.Match[str]) -> str:
    """``/home/me/model.py`` -> ``model.py``; an installed package keeps its path below site-packages."""
    _, installed, below = match[1].rpartition("/site-packages/")
    return f'File "{below if installed else Path(match[1]).name}"'


def _fold_weight_transposes(graph: ir.Graph) -> None:
    """Turn Transpose(parameter) into an initialiser that is transposed when it is written.

    Linear layers arrive as MatMul(x, Transpose(weight)). Folding the transpose here keeps the parameter's
    name and copies nothing: the tensor is a view until it is serialised.
    """
    for node in list(graph):
        weight = node.inputs[0] if node.op_type == "Transpose" else None
        if weight is None or not weight.is_initializer() or weight.const_value is None:
            continue
        output = node.outputs[0]
        permutation = _permutation(node, weight)
        folded = ir.Value(
            name=f"{weight.name}.transposed",
            type=weight.type,
            shape=ir.Shape([weight.const_value.shape.numpy()[axis] for axis in permutation]),
            const_value=_transposed(weight.const_value, permutation, f"{weight.name}.transposed"),
            metadata_props={SOURCE: str(weight.name)},
        )
        known = graph.initializers.get(str(folded.name))
        if known is None:
            graph.register_initializer(folded)
        output.replace_all_uses_with(known or folded)
        graph.remove(node, safe=True)
        if not weight.uses() and not weight.is_graph_output():
            del graph.initializers[str(weight.name)]
            # onnxscript's rules keep hold of the graph they matched last: not of the weights too.
            weight.const_value = None


def _permutation(node: ir.Node, weight: ir.Value) -> tuple[int, ...]:
    perm = node.attributes.get("perm")
    assert weight.const_value is not None
    return (
        tuple(perm.as_ints()) if perm is not None else tuple(reversed(range(len(weight.const_value.shape))))
    )


def _transposed(tensor: ir.TensorProtocol, permutation: tuple[int, ...], name: str) -> ir.LazyTensor:
    def evaluate() -> ir.TensorProtocol:
        return ir.Tensor(tensor.numpy().transpose(permutation), dtype=tensor.dtype, name=name)

    shape = ir.Shape([tensor.shape.numpy()[axis] for axis in permutation])
    return ir.LazyTensor(evaluate, dtype=tensor.dtype, shape=shape, name=name)


def _simplify(model: ir.Model) -> None:
    """Fold what is constant and simplify shape arithmetic; also labels every value with its symbolic shape.

    Of onnxscript's rules only those that move or drop data without computing with it: everything that touches
    a number is a pass of ours, with its own validation.
    """
    from onnx_ir.passes import common as passes
    from onnxscript import optimizer, rewriter
    from onnxscript.rewriter.rules import common

    rules = [getattr(common, name) for name in _DATA_MOVEMENT_RULES]
    with quiet():
        for _ in range(_SIMPLIFY_ROUNDS):
            optimizer.fold_constants(model, onnx_shape_inference=True)
            rewriter.rewrite(model, rules)
        passes.RemoveUnusedNodesPass()(model)
        passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        passes.LiftSubgraphInitializersToMainGraphPass()(model)


def _finish_interface(graph: ir.Graph, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Give inputs and outputs their final names; nothing else in the graph may have one of these names.

    An output that is an input or a weight, or is returned twice, gets an Identity of its own, so that names
    stay distinct.
    """
    seen: set[ir.Value] = set()
    for index, value in enumerate(list(graph.outputs)):
        if value in seen or value.is_graph_input() or value.is_initializer():
            node = ir.node("Identity", [value], name=f"output_{index}")
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
        seen.add(graph.outputs[index])
    taken = {*inputs, *outputs}
    for value in _inner_values(graph):
        if value.name in taken:
            value.name = f"{value.name}.inner"
    for value, name in zip(graph.outputs, outputs, strict=True):
        value.name = name
    for value, name in zip(graph.inputs, inputs, strict=True):
        value.name = name


def _inner_values(graph: ir.Graph) -> list[ir.Value]:
    outer = {*graph.inputs, *graph.outputs}
    values = [*graph.initializers.values(), *(o for node in graph.all_nodes() for o in node.outputs)]
    return [v for v in values if v not in outer]


def rename_dims(graph: ir.Graph, names: Mapping[str, str]) -> None:
    """Replace symbols by other names or expressions in the shape of every value.

    A symbol that the exporter replaced by a number becomes that number.
    """
    values = [*graph.inputs, *(o for node in graph.all_nodes() for o in node.outputs)]
    for value in values:
        if value.shape is not None and any(isinstance(d, ir.SymbolicDim) for d in value.shape):
            value.shape = ir.Shape([_renamed(dim, names) for dim in value.shape])


def _renamed(dim: int | ir.SymbolicDim, names: Mapping[str, str]) -> int | ir.SymbolicDim:
    if isinstance(dim, int) or dim.value is None:
        return dim
    text = str(dim.value)
    if text.isdecimal():
        return int(text)
    if text in names:
        return ir.SymbolicDim(names[text])
    return ir.SymbolicDim(_WORD.sub(lambda match: _in_expression(names.get(match[0], match[0])), text))


def _in_expression(name: str) -> str:
    return name if name.isidentifier() else f"({name})"


def parameter_bytes(module: torch.nn.Module) -> int:
    """Return the bytes of the parameters and buffers of ``module``, shared ones once."""
    tensors = {t.data_ptr(): t for t in (*module.parameters(), *module.buffers())}
    return sum(t.nbytes for t in tensors.values())
