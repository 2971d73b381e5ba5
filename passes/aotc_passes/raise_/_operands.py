"""The products of an attention and their operands, with a name for each axis.

Batch axes are called by their position in the product, the others ``n`` (queries), ``m`` (keys), ``d`` (what
queries and keys have in common) and ``e`` (what values have).
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from aotc.ir.constants import constant
from aotc.ir.walk import is_op

_MOVES = ("Reshape", "Expand", "Unsqueeze", "Squeeze", "Tile", "Gather", "Identity")
_MOST_MOVES = 5


@dataclasses.dataclass(frozen=True)
class Operand:
    """A value and the name of each of its axes; an axis that is missing has one entry for all."""

    value: ir.Value
    axes: tuple[str, ...]

    def dim(self, axis: str) -> int | ir.SymbolicDim:
        """Return the size of an axis; 1 if the value does not have it."""
        assert self.value.shape is not None
        return self.value.shape[self.axes.index(axis)] if axis in self.axes else 1


@dataclasses.dataclass(frozen=True)
class Product:
    """``left`` times ``right``, summed over what they share; ``axes`` are those of the result."""

    node: ir.Node
    left: Operand
    right: Operand
    axes: tuple[str, ...]


def product_of(node: ir.Node, rows: str = "n", shared: str = "d", columns: str = "m") -> Product | None:
    """Return ``node`` as a product (..., rows, shared) x (..., shared, columns); None if it is none."""
    if is_op(node, "MatMul"):
        return _of_matmul(node, rows, shared, columns)
    if is_op(node, "Einsum"):
        return _of_einsum(node, rows, shared, columns)
    return None


def _of_matmul(node: ir.Node, rows: str, shared: str, columns: str) -> Product | None:
    left, right = node.inputs
    shapes = [value.shape if value is not None else None for value in (left, right, *node.outputs)]
    if any(shape is None or len(shape) < 2 for shape in shapes):
        return None
    ranks = [len(shape) for shape in shapes if shape is not None]
    batch = [tuple(str(axis) for axis in range(ranks[2] - rank, ranks[2] - 2)) for rank in ranks]
    assert left is not None
    assert right is not None
    return Product(
        node,
        Operand(left, (*batch[0], rows, shared)),
        Operand(right, (*batch[1], shared, columns)),
        (*batch[2], rows, columns),
    )


def _of_einsum(node: ir.Node, rows: str, shared: str, columns: str) -> Product | None:
    equation = node.attributes["equation"].as_string().replace(" ", "")
    terms, arrow, result = equation.partition("->")
    inputs = terms.split(",")
    if not arrow or len(inputs) != 2 or "." in equation:
        return None
    a, b = (set(term) for term in inputs)
    if any(len(set(term)) != len(term) for term in (*inputs, result)) or not set(result) <= a | b:
        return None
    summed, own_a, own_b = (a & b) - set(result), a - b, b - a
    if not len(summed) == len(own_a) == len(own_b) == 1 or (own_a | own_b) - set(result):
        return None
    order = sorted([*own_a, *own_b], key=result.index)
    swapped = order[0] in own_b
    names = {order[0]: rows, order[1]: columns, summed.pop(): shared}
    names |= {label: str(axis) for axis, label in enumerate(label for label in result if label in a & b)}
    operands = []
    for value, term in zip(node.inputs, inputs, strict=True):
        if value is None or value.shape is None or len(value.shape) != len(term):
            return None
        operands.append(Operand(value, tuple(names[label] for label in term)))
    left, right = reversed(operands) if swapped else operands
    return Product(node, left, right, tuple(names[label] for label in result))


def with_left(product: Product, value: ir.Value) -> Product | None:
    """Name the batch axes of ``product`` as they are in ``value``; None if that is not its left side."""
    left = product.left
    if left.value is not value or left.axes[-2:] != ("n", "m"):
        return None
    names = {name: str(axis) for axis, name in enumerate(left.axes[:-2])}

    def renamed(axes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in axes)

    right = Operand(product.right.value, renamed(product.right.axes))
    return Product(product.node, Operand(value, renamed(left.axes)), right, renamed(product.axes))


def settled(operand: Operand) -> tuple[Operand, float]:
    """Return what ``operand`` is before it was transposed, unsqueezed and scaled, and by how much it was."""
    factor = 1.0
    while (node := operand.value.producer()) is not None and not node.domain:
        source = node.inputs[0] if node.inputs else None
        if source is None or source.shape is None:
            break
        if node.op_type == "Transpose":
            perm = node.attributes.get_ints("perm", tuple(reversed(range(len(operand.axes)))))
            axes = [name for _, name in sorted(zip(perm, operand.axes, strict=True))]
            operand = Operand(source, tuple(axes))
        elif node.op_type == "Unsqueeze" and (kept := _before_unsqueeze(node, operand.axes)) is not None:
            operand = Operand(source, kept)
        elif node.op_type in ("Mul", "Div") and (scaled := _scaled(node, operand)) is not None:
            operand, factor = Operand(scaled[0], operand.axes), factor * scaled[1]
        else:
            break
    return operand, factor


def _before_unsqueeze(node: ir.Node, axes: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names of the axes that ``node`` does not add; None unless those it adds are batch axes."""
    tensor = constant(node.inputs[1])
    if tensor is None:
        return None
    added = {int(axis) % len(axes) for axis in tensor.numpy().reshape(-1)}
    if not all(axes[axis].isdigit() for axis in added):
        return None
    return tuple(name for axis, name in enumerate(axes) if axis not in added)


def _scaled(node: ir.Node, operand: Operand) -> tuple[ir.Value, float] | None:
    found = by_number(node)
    same = found is not None and found[0].shape is not None and len(found[0].shape) == len(operand.axes)
    return found if same else None


def by_number(node: ir.Node) -> tuple[ir.Value, float] | None:
    """Return what Mul or Div scales, and by which number (not 0); None for other nodes."""
    left, right = node.inputs
    number = scalar(right)
    if left is not None and number:
        return left, number if is_op(node, "Mul") else 1 / number
    number = scalar(left)
    return (right, number) if right is not None and number and is_op(node, "Mul") else None


def scalar(value: ir.Value | None) -> float | None:
    """Return the number that a constant of one element is; None for anything else."""
    tensor = constant(value)
    if tensor is None or tensor.size != 1 or tensor.dtype == ir.DataType.STRING:
        return None
    return float(tensor.numpy().reshape(-1)[0])


def before_repeat(operand: Operand, axis: str) -> Operand:
    """Return the fewer heads of which ``operand`` has each several times in a row along ``axis``, or itself.

    Whether the moves between are such a repetition is for the validation of the rewrite to say: tiles in
    another order have the same shapes.
    """
    assert operand.value.shape is not None
    rank, place = len(operand.axes), operand.axes.index(axis)
    heads, value = operand.dim(axis), operand.value
    for _ in range(_MOST_MOVES):
        node = value.producer()
        if node is None or not is_op(node, *_MOVES) or node.inputs[0] is None:
            break
        value = node.inputs[0]
        if value.shape is None or not isinstance(heads, int) or len(value.shape) != rank:
            continue
        fewer = value.shape[place]
        others = (
            a == b
            for i, (a, b) in enumerate(zip(value.shape, operand.value.shape, strict=True))
            if i != place
        )
        if isinstance(fewer, int) and 0 < fewer < heads and heads % fewer == 0 and all(others):
            return Operand(value, operand.axes)
    return operand
