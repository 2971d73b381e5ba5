"""A Hypothesis strategy for small graphs: any mix of the operators that the optimising passes look at.

Values stay small, because every weight is scaled so that no operator amplifies much: the difference that a
correct rewrite makes is then bounded, and the tolerance of the properties can be tight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from hypothesis import strategies as st

CHANNELS = 4
IMAGE = (2, CHANNELS, 4, 4)
STEPS = 9


@dataclasses.dataclass
class Builder:
    """A graph under construction; all ``values`` have the shape of the input, ``IMAGE``."""

    graph: ir.Graph
    draw: Callable[[Any], Any]
    rng: np.random.Generator
    values: list[ir.Value]
    counter: list[int]

    def name(self, stem: str) -> str:
        self.counter[0] += 1
        return f"{stem}{self.counter[0]}"

    def pick(self) -> ir.Value:
        return self.draw(st.sampled_from(self.values))

    def constant(self, array: np.ndarray[Any, Any], *, reuse: bool = True) -> ir.Value:
        """Make an initialiser or a Constant node, or take an initialiser of the same type and shape."""
        same = [
            v
            for v in self.graph.initializers.values()
            if v.dtype == _dtype(array) and v.shape == ir.Shape(array.shape)
        ]
        choice = self.draw(st.integers(0, 3)) if same and reuse else 0
        if choice > 1:
            found = self.draw(st.sampled_from(same))
            if choice == 2:
                return found
            array = found.const_value.numpy().copy()
        tensor = ir.Tensor(array)
        if self.draw(st.integers(0, 3)) == 0:
            return self.op(
                "Constant",
                [],
                attributes=[ir.AttrTensor("value", tensor)],
                shape=array.shape,
                dtype=_dtype(array),
            )
        value = ir.Value(
            name=self.name("w"),
            type=ir.TensorType(_dtype(array)),
            shape=ir.Shape(array.shape),
            const_value=tensor,
        )
        self.graph.initializers.add(value)
        return value

    def weight(self, *shape: int, low: float = -1.0) -> ir.Value:
        """Make a small grid of numbers, coarse so that equal weights occur."""
        return self.constant((self.rng.integers(int(low * 4), 5, shape) / 4).astype(np.float32))

    def op(
        self,
        op_type: str,
        inputs: list[ir.Value | None],
        *,
        attributes: list[ir.Attr] | None = None,
        shape: tuple[int, ...] | None = IMAGE,
        dtype: ir.DataType = ir.DataType.FLOAT,
    ) -> ir.Value:
        node = ir.Node("", op_type, inputs, attributes or [], num_outputs=1)
        output = node.outputs[0]
        output.name, output.type = self.name(op_type.lower()), ir.TensorType(dtype)
        output.shape = None if shape is None else ir.Shape(shape)
        self.graph.append(node)
        return output


def _dtype(array: np.ndarray[Any, Any]) -> ir.DataType:
    return ir.DataType.from_numpy(array.dtype)


def _unary(b: Builder) -> ir.Value:
    return b.op(b.draw(st.sampled_from(["Relu", "Tanh", "Neg", "Sigmoid", "Identity"])), [b.pick()])


def _binary(b: Builder) -> ir.Value:
    other = (
        b.pick()
        if b.draw(st.booleans())
        else b.weight(*b.draw(st.sampled_from([(), (1,), (CHANNELS, 1, 1)])))
    )
    return b.op("Tanh", [b.op(b.draw(st.sampled_from(["Add", "Sub", "Max", "Mul"])), [b.pick(), other])])


def _matmul(b: Builder) -> ir.Value:
    weight = b.weight(4, 4)
    if b.draw(st.booleans()):
        weight = b.op("Transpose", [weight], attributes=[ir.AttrInt64s("perm", [1, 0])], shape=(4, 4))
    return b.op("Tanh", [b.op("MatMul", [b.pick(), weight])])


def _conv(b: Builder) -> ir.Value:
    """Make a convolution, mostly with a normalisation after it."""
    group = b.draw(st.sampled_from([1, 2, CHANNELS]))
    op_type = b.draw(st.sampled_from(["Conv", "ConvTranspose"]))
    size = b.draw(st.sampled_from([1, 3]))
    attributes = [ir.AttrInt64("group", group), ir.AttrInt64s("pads", [size // 2] * 4)]
    inputs: list[ir.Value | None] = [b.pick(), b.weight(CHANNELS, CHANNELS // group, size, size)]
    if b.draw(st.booleans()):
        inputs.append(b.weight(CHANNELS))
    value = b.op(op_type, inputs, attributes=attributes)
    if b.draw(st.integers(0, 3)) == 0:
        b.values.append(value)
    return _norm(b, value) if b.draw(st.integers(0, 4)) else value


def _norm(b: Builder, value: ir.Value) -> ir.Value:
    scale, bias, mean = b.weight(CHANNELS), b.weight(CHANNELS), b.weight(CHANNELS)
    variance = b.constant((b.rng.integers(2, 5, CHANNELS) / 4).astype(np.float32), reuse=False)
    attributes = [ir.AttrFloat32("epsilon", b.draw(st.sampled_from([1e-5, 0.1])))]
    return b.op("BatchNormalization", [value, scale, bias, mean, variance], attributes=attributes)


def _slice_concat(b: Builder) -> ir.Value:
    half = CHANNELS // 2
    axes = b.constant(np.array([1], np.int64), reuse=False)
    cut = [b.constant(np.array([n], np.int64), reuse=False) for n in (0, half)]
    part = b.op("Slice", [b.pick(), *cut, axes], shape=(2, half, 4, 4))
    return b.op("Concat", [part, part], attributes=[ir.AttrInt64("axis", 1)])


def _reshape(b: Builder) -> ir.Value:
    shape = b.op("Shape", [b.pick()], shape=(4,), dtype=ir.DataType.INT64)
    return b.op("Reshape", [b.pick(), shape])


def _constant_chain(b: Builder) -> ir.Value:
    both = b.op("Add", [b.weight(4), b.weight(4)], shape=(4,))
    if b.draw(st.booleans()):
        both = b.op("CastLike", [both, b.pick()], shape=(4,))
    return b.op("Tanh", [b.op("Mul", [b.pick(), both])])


def _if(b: Builder) -> ir.Value:
    """Make an If whose branches capture outer values and have constants of their own."""
    condition = b.graph.inputs[1]
    branches = [ir.AttrGraph(key, _branch(b)) for key in ("then_branch", "else_branch")]
    return b.op("If", [condition], attributes=branches)


def _branch(b: Builder) -> ir.Graph:
    graph = ir.Graph([], [], nodes=[], name=b.name("branch"))
    inner = Builder(graph, b.draw, b.rng, list(b.values), b.counter)
    for _ in range(b.draw(st.integers(1, 3))):
        inner.values.append(b.draw(st.sampled_from([_unary, _binary, _conv, _constant_chain]))(inner))
    graph.outputs.append(inner.op("Identity", [inner.values[-1]]))
    return graph


def _twin(b: Builder) -> ir.Value:
    """Compute something that is there already a second time."""
    twins = [
        n for n in b.graph if n.op_type not in ("If", "Constant") and n.outputs[0].shape == ir.Shape(IMAGE)
    ]
    if not twins:
        return _unary(b)
    node = b.draw(st.sampled_from(twins))
    return b.op(node.op_type, list(node.inputs), attributes=list(node.attributes.values()))


STEP_KINDS = (
    _unary,
    _binary,
    _matmul,
    _conv,
    _conv,
    _slice_concat,
    _reshape,
    _constant_chain,
    _if,
    _twin,
    _twin,
)


@st.composite
def models(draw: Callable[[Any], Any]) -> ir.Model:
    """Draw a valid model with the inputs ``x`` and ``flag``; its outputs lie anywhere in the graph."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(IMAGE))
    flag = ir.Value(name="flag", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    graph = ir.Graph([x, flag], [], nodes=[], opset_imports={"": 24}, name="random")
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    b = Builder(graph, draw, rng, [x], [0])
    for _ in range(draw(st.integers(1, STEPS))):
        b.values.append(draw(st.sampled_from(STEP_KINDS))(b))
    made = [value for value in dict.fromkeys(b.values) if value is not x]
    for value in draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True)):
        graph.outputs.append(value)
    return ir.Model(graph, ir_version=10)
