"""What eager checks about its data and ONNX does not: computed indices below zero, and assertions.

PyTorch raises for the index -1 in ``F.embedding``, ``gather`` or ``scatter``; ONNX reads it as the last
entry. The runtime checks the inputs of a model (``aotc.export.index_ranges``), not what forward computes from
them. So the traced program is changed before it is translated:

- a negative index becomes the largest integer, which every runtime refuses;
- what an operator demands otherwise (``one_hot``, class targets, repeats), and what forward itself asserts
  about its data, becomes a condition that the first output depends on.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError
from aotc.export import guards
from aotc.export.translations import require

if TYPE_CHECKING:
    from torch import fx
    from torch.export import ExportedProgram

REFUSES_NEGATIVE = {
    "embedding": "indices",
    "embedding_bag": "indices",
    "gather": "index",
    "index_add": "index",
    "index_copy": "index",
    "index_reduce": "index",
    "index_select": "index",
    "scatter": "index",
    "scatter_add": "index",
    "scatter_reduce": "index",
}
"""The index argument of each operator that refuses -1. The in-place forms are called alike."""

_SCALAR = ("item", "_local_scalar_dense")
_ON_TENSORS = {
    "add": "add.Tensor",
    "and_": "logical_and.default",
    "eq": "eq.Tensor",
    "ge": "ge.Tensor",
    "gt": "gt.Tensor",
    "le": "le.Tensor",
    "lt": "lt.Tensor",
    "mul": "mul.Tensor",
    "ne": "ne.Tensor",
    "or_": "logical_or.default",
    "sub": "sub.Tensor",
    "sym_not": "logical_not.default",
}
"""Operators on Python scalars, and their form on tensors."""


def insert_data_checks(program: ExportedProgram) -> None:
    """Change ``program`` so that its translation raises where eager does.

    Raises:
        RefusedError: An assertion that ONNX cannot express.
    """
    from torch import fx

    for module in program.graph_module.modules():
        if isinstance(graph := getattr(module, "graph", None), fx.Graph):
            _insert(program, graph)
    program.graph_module.recompile()


def _insert(program: ExportedProgram, graph: fx.Graph) -> None:
    guarded: dict[fx.Node, fx.Node] = {}
    conditions: list[fx.Node] = []
    for node in list(graph.nodes):
        arguments = {argument.name: value for argument, value in guards.schema_arguments(node)}
        index = arguments.get(REFUSES_NEGATIVE.get(_name(node), ""))
        if index is not None and _may_be_negative(program, index):
            if index not in guarded:
                guarded[index] = _refuse_negative(_Editor(graph, node), index)
            node.replace_input_with(index, guarded[index])
        if (condition := _demanded(_Editor(graph, node), node, arguments)) is not None:
            conditions.append(condition)
    if conditions:
        _tie(program, graph, conditions)


def _tie(program: ExportedProgram, graph: fx.Graph, conditions: list[fx.Node]) -> None:
    """Make the first output of ``graph`` depend on ``conditions``."""
    output = graph.output_node()
    values: Any = output.args[0]
    first, *others = values
    if not _is_tensor(first):
        raise _inexpressible(conditions[0], "return a tensor first")
    tied = first
    for condition in conditions:
        tied = _Editor(graph, output, condition)(require.operator(), tied, condition)
    output.args = ((tied, *others),)
    if graph is program.graph:
        for spec in program.graph_signature.output_specs:
            if spec.arg.name == first.name:
                spec.arg = dataclasses.replace(spec.arg, name=tied.name)
                break


class _Editor:
    """Inserts operators before a node, as part of its line of the model or of another node's."""

    def __init__(self, graph: fx.Graph, before: fx.Node, line: fx.Node | None = None) -> None:
        self._graph = graph
        self._before = before
        self._line = line or before

    def __call__(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        import torch
        from torch._guards import detect_fake_mode

        values = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in args]
        mode = detect_fake_mode([node.meta.get("val") for node in self._graph.nodes])
        assert mode is not None
        with mode:
            result = op(*values, **kwargs)
        with self._graph.inserting_before(self._before):
            node = self._graph.call_function(op, args, kwargs)
        node.meta = {
            **{k: v for k, v in self._line.meta.items() if k in ("stack_trace", "nn_module_stack")},
            "val": result,
        }
        return node


def _refuse_negative(edit: _Editor, index: fx.Node) -> fx.Node:
    import torch

    aten = torch.ops.aten
    largest = torch.iinfo(index.meta["val"].dtype).max
    return edit(aten.masked_fill.Scalar, index, edit(aten.lt.Scalar, index, 0), largest)


def _may_be_negative(program: ExportedProgram, index: fx.Node) -> bool:
    if not index.meta["val"].dtype.is_signed:
        return False
    signature = program.graph_signature
    if (name := signature.inputs_to_buffers.get(index.name)) is not None:
        known = program.state_dict.get(name, program.constants.get(name))
    else:
        known = program.constants.get(signature.inputs_to_lifted_tensor_constants.get(index.name, ""))
    return known is None or bool((known < 0).any())


def _demanded(edit: _Editor, node: fx.Node, arguments: dict[str, Any]) -> fx.Node | None:
    """Return what must be true of the data of ``node``, as a bool of rank 0; None if nothing."""
    import torch

    aten = torch.ops.aten
    match _name(node):
        case "_assert_async":
            return edit(aten.ne.Scalar, node.args[0], 0)
        case "_assert_scalar":
            return _from_symbol(edit, node, node.args[0]) if _reads_data(node.args[0]) else None
        case "one_hot":
            classes = arguments.get("num_classes", -1)
            return _within(edit, arguments["self"], 0, None if classes == -1 else classes)
        case "bincount":
            return _within(edit, arguments["self"], 0, None)
        case "repeat_interleave" if _is_tensor(arguments["repeats"]):
            return _within(edit, arguments["repeats"], 0, None)
        case "binary_cross_entropy":
            return _within(edit, arguments["self"], 0, 1, closed=True)
        case "cross_entropy_loss" | "multi_margin_loss" | "nll_loss" | "nll_loss2d" | "nll_loss_nd":
            return _targets(edit, arguments)
    return None


def _within(edit: _Editor, values: Any, low: int, high: Any, *, closed: bool = False) -> fx.Node:
    """Values are at least ``low`` and below ``high``, if there is one; ``closed``: or equal to it."""
    import torch

    aten = torch.ops.aten
    inside = edit(aten.ge.Scalar, values, low)
    if high is not None:
        below = edit(aten.le.Scalar if closed else aten.lt.Scalar, values, high)
        inside = edit(aten.logical_and.default, inside, below)
    return edit(aten.all.default, inside)


def _targets(edit: _Editor, arguments: dict[str, Any]) -> fx.Node | None:
    """Class targets name a class or are ``ignore_index``; targets given as probabilities may be anything."""
    import torch

    aten = torch.ops.aten
    target, scores = arguments["target"], arguments["self"].meta["val"]
    if target.meta["val"].is_floating_point():
        return None
    classes = scores.shape[min(1, scores.ndim - 1)]
    if not isinstance(classes, int):
        return None
    ignored = edit(aten.eq.Scalar, target, arguments.get("ignore_index", -100))
    return _within(edit, edit(aten.masked_fill.Scalar, target, ignored, 0), 0, classes)


def _reads_data(symbol: Any) -> bool:
    """Return whether a scalar comes from a tensor's value; sizes are always what their operator made them."""
    from torch import fx

    if not isinstance(symbol, fx.Node):
        return False
    if _name(symbol) in _SCALAR:
        return True
    return not _is_tensor(symbol) and any(_reads_data(part) for part in symbol.args)


def _from_symbol(edit: _Editor, node: fx.Node, symbol: Any) -> fx.Node:
    """Compute with tensors what the program computes with Python scalars."""
    import torch

    aten = torch.ops.aten
    if not isinstance(symbol, torch.fx.Node) or _name(symbol) == "sym_size":
        dtype = torch.float64 if isinstance(symbol, float) else torch.int64
        return edit(aten.scalar_tensor.default, symbol, dtype=dtype)
    if _name(symbol) in _SCALAR:
        source = symbol.args[0]
        assert isinstance(source, torch.fx.Node)
        return edit(aten.reshape.default, source, [])
    name = _ON_TENSORS.get(_python_name(symbol))
    if name is None:
        raise _inexpressible(node, "assert it of the inputs, before the model is called")
    parts = [_from_symbol(edit, node, part) for part in symbol.args]
    return edit(operator.attrgetter(name)(aten), *parts)


def _inexpressible(node: fx.Node, hint: str) -> RefusedError:
    return RefusedError(
        f"{_name(node)} checks the data, which cannot be expressed in ONNX here",
        slug="data-assertion",
        where=guards.stack_place(node),
        hint=hint,
    )


def _name(node: fx.Node) -> str:
    """``aten.scatter_.src`` -> ``scatter``."""
    schema = getattr(node.target, "_schema", None)
    namespace, _, name = schema.name.partition("::") if schema is not None else ("", "", "")
    return name.rstrip("_") if namespace == "aten" else ""


def _python_name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", ""))


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.fx.Node) and isinstance(value.meta["val"], torch.Tensor)
