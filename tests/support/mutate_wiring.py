"""Mutants of the graph's edges: what is read, in which order, through what, and at which size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
from mutate_edit import Site, Subject, array_of, bypassed, of_type, swapped, title, with_input

from aotc.ir.walk import graphs
from aotc.oracle import Oracle

_ORACLE = Oracle(1)
_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32})
_BOOL = frozenset({ir.DataType.BOOL})


_PAIRS = {"Sub": (0, 1), "Div": (0, 1), "Pow": (0, 1), "MatMul": (0, 1), "Less": (0, 1), "Greater": (0, 1)}
_PAIRS |= {"Where": (1, 2), "Attention": (1, 2), "Concat": (0, 1), "LessOrEqual": (0, 1)}
_PAIRS |= {"GreaterOrEqual": (0, 1), "LayerNormalization": (1, 2)}


def operands(s: Subject) -> Iterator[Site]:
    """Yield two inputs swapped, in an operator that tells them apart; of attention, keys and values."""
    for node in s.of(*_PAIRS):
        first, second = _PAIRS[node.op_type]
        if len(node.inputs) > second and node.inputs[first] is not node.inputs[second]:
            yield title(node), swapped(node, first, second)


def parts(s: Subject) -> Iterator[Site]:
    """Yield the results of a split in another order, and the branches of a condition."""
    for node in s.of("Split"):

        def exchange(node: ir.Node = node) -> None:
            one, two = node.outputs[:2]
            uses = [(use.node, use.idx) for use in one.uses()]
            one_after = [(use.node, use.idx) for use in two.uses()]
            for user, index in uses:
                user.replace_input_with(index, two)
            for user, index in one_after:
                user.replace_input_with(index, one)

        yield title(node), exchange
    for node in s.of("If"):

        def other(node: ir.Node = node) -> None:
            then = node.attributes["then_branch"].as_graph()
            otherwise = node.attributes["else_branch"].as_graph()
            node.attributes["then_branch"] = ir.AttrGraph("then_branch", otherwise)
            node.attributes["else_branch"] = ir.AttrGraph("else_branch", then)

        yield title(node), other


_SAME_SHAPE = ("Abs", "Clip", "CumSum", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish")
_SAME_SHAPE += ("LeakyRelu", "Log", "Neg", "Not", "Reciprocal", "Relu", "Sigmoid", "Softmax", "Sqrt", "Tanh")
_NORMS = ("BatchNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization")


def dropped(s: Subject) -> Iterator[Site]:
    """Yield graphs without one activation, norm or sign."""
    for node in s.of(*_SAME_SHAPE, *_NORMS, "GroupNormalization", "Trilu"):
        yield title(node), bypassed(node)


def residual_dropped(s: Subject) -> Iterator[Site]:
    """Yield sums and products of two computed tensors with one of them alone."""
    for node in s.of("Add", "Mul"):
        computed = [array_of(value) is None for value in node.inputs]
        if all(computed) and of_type(node.outputs[0]):
            yield from ((f"{title(node)}: input {side} alone", bypassed(node, side)) for side in (0, 1))


_OTHER = {"Max": "Min", "Min": "Max", "Sin": "Cos", "Cos": "Sin", "And": "Or", "Floor": "Ceil"}
_OTHER |= {"Less": "LessOrEqual", "LessOrEqual": "Less", "Greater": "GreaterOrEqual"}
_OTHER |= {"GreaterOrEqual": "Greater", "ReduceMean": "ReduceSum", "ReduceSum": "ReduceMean"}
_OTHER |= {"ReduceMax": "ReduceMin", "GlobalMaxPool": "GlobalAveragePool", "Tanh": "Softsign"}
_OTHER |= {"GlobalAveragePool": "GlobalMaxPool", "Sigmoid": "HardSigmoid", "Relu": "Abs", "Sub": "Add"}


def other_operator(s: Subject) -> Iterator[Site]:
    """Yield operators taken for their neighbour: less for less or equal, sine for cosine, sum for mean."""
    for node in s.of(*_OTHER):

        def edit(node: ir.Node = node) -> None:
            node.op_type = _OTHER[node.op_type]

        yield f"{title(node)} as {_OTHER[node.op_type]}", edit


def through(dtype: ir.DataType) -> Callable[[Subject], Iterator[Site]]:
    """Return the kind that rounds one computed tensor of floats to ``dtype``."""

    def cast(value: ir.Value) -> list[ir.Node]:
        there = ir.node("Cast", [value], attributes={"to": int(dtype)})
        return [there, ir.node("Cast", [there.outputs[0]], attributes={"to": int(value.dtype)})]

    def kind(s: Subject) -> Iterator[Site]:
        for node in s.nodes:
            if of_type(node.outputs[0]):
                yield title(node), lambda value=node.outputs[0]: s.insert(value, cast)

    return kind


def outputs(s: Subject) -> Iterator[Site]:
    """Yield outputs of the graph with the entries of an axis in reverse, and two outputs swapped."""
    found = list(s.model.graph.outputs)
    for value in found:
        for axis, size in enumerate(value.shape or ()):
            if size != 1 and value.producer() is not None:
                yield f"{value.name}: axis {axis}", lambda v=value, a=axis: s.insert(v, _reversed(s, a))
    for one, two in itertools.pairwise(found):
        if (one.dtype, one.shape) == (two.dtype, two.shape):
            yield f"{one.name} and {two.name}", lambda o=one, t=two: _rename(o, t)


def _rename(one: ir.Value, two: ir.Value) -> None:
    name, other = one.name, two.name
    one.name, two.name = "mutant_swap", name
    one.name = other


def _reversed(s: Subject, axis: int) -> Callable[[ir.Value], list[ir.Node]]:
    constants = [s.constant(np.array([n])) for n in (-1, np.iinfo(np.int64).min + 1, axis, -1)]
    return lambda value: [ir.node("Slice", [value, *constants])]


def heads(s: Subject) -> Iterator[Site]:
    """Yield heads in another order for one of query, key and value, and each key's copies interleaved."""
    for node in s.of("Transpose"):
        value = node.inputs[0]
        if list(node.attributes.get_ints("perm", [])) == [0, 2, 1, 3] and value.producer() is not None:
            yield title(node), lambda v=value: s.insert(v, _reversed(s, 2))
    for node in s.of("Expand"):
        value = node.outputs[0]
        if value.shape is not None and value.shape.rank() == 5 and of_type(value):
            transpose = {"perm": [0, 2, 1, 3, 4]}
            yield (
                title(node),
                lambda v=value, t=transpose: s.insert(v, lambda x: [ir.node("Transpose", [x], attributes=t)]),
            )


def positions(s: Subject) -> Iterator[Site]:
    """Yield counted positions plus one."""
    for node in s.of("Range", "CumSum"):
        value = node.outputs[0]
        if of_type(value, _INTEGERS):

            def edit(value: ir.Value = value) -> None:
                one = s.constant(np.asarray(1, value.dtype.numpy()))
                s.insert(value, lambda v: [ir.node("Add", [v, one])])

            yield title(node), edit


def state_dropped(s: Subject) -> Iterator[Site]:
    """Yield recurrent layers that start from zeros."""
    for node in s.of("LSTM", "GRU", "RNN"):
        if len(node.inputs) > 5 and node.inputs[5] is not None:
            yield title(node), with_input(node, 5, None)


_SIZED = {"Reshape": 1, "Expand": 1, "Range": 1, "Slice": 2, "Tile": 1, "ConstantOfShape": 0, "Concat": 0}


def baked(s: Subject) -> Iterator[Site]:
    """Yield computed shapes, ends and counts as what they are for the example's sizes."""
    main = set(s.model.graph)
    for node in s.of(*_SIZED):
        index = _SIZED[node.op_type]
        value = node.inputs[index]
        if value is None or value.producer() not in main or not of_type(value, _INTEGERS):
            continue

        def edit(node: ir.Node = node, index: int = index, value: ir.Value = value) -> None:
            node.replace_input_with(index, s.constant(_at_example(s, value)))

        yield f"input {index} of {title(node)}", edit


def _at_example(s: Subject, value: ir.Value) -> Any:
    copy = s.model.clone()
    twin = next(v for node in copy.graph for v in node.outputs if v.name == value.name)
    copy.graph.outputs.append(twin)
    return _ORACLE.run(copy, s.example)[str(value.name)]


def forget_shapes(model: ir.Model) -> None:
    """Drop what is noted of inner shapes: a mutant may have others."""
    kept = set(model.graph.outputs)
    for graph in graphs(model):
        for value in (output for node in graph for output in node.outputs):
            if value not in kept:
                value.shape = None
