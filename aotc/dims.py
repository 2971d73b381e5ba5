"""Symbolic dims as text: ``batch``, ``seq + 1``, ``Min(128, seq)``.

The exporter labels axes with sympy expressions; the runtime evaluates their text without sympy. Python's own
parser reads the text and only integer arithmetic is evaluated, so a hostile bundle cannot run code with it.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from aotc.errors import InputError

Size = int | str

_MAX_LENGTH = 400
_LARGEST = 2**63

Number = int | float
"""Conditions on sizes may compute with floats (``n / 5 == 2.0``), sizes themselves do not."""

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {"Eq": operator.eq, "Ne": operator.ne}
_CALLS: dict[str, Callable[..., Any]] = {
    "Abs": abs,
    "CeilToInt": math.ceil,
    "CleanDiv": operator.floordiv,
    "FloatTrueDiv": operator.truediv,
    "FloorToInt": math.floor,
    "IntTrueDiv": operator.truediv,
    "RoundToInt": round,
    "ToFloat": float,
    "TruncToInt": int,
    "Min": min,
    "Max": max,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "floor": math.floor,  # floor(a / b) is handled before
}


def symbols(expression: Size) -> frozenset[str]:
    """Return the names of the symbols in ``expression``."""
    if isinstance(expression, int):
        return frozenset()
    calls = {*_CALLS, *_RELATIONS}
    return frozenset(
        n.id for n in ast.walk(_parse(expression)) if isinstance(n, ast.Name) and n.id not in calls
    )


@functools.lru_cache(maxsize=1024)
def _parse(expression: str) -> ast.expr:
    if len(expression) > _MAX_LENGTH:
        raise InputError(f"a dim expression has {len(expression)} characters, more than {_MAX_LENGTH}")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"the dim '{expression}' is not an expression") from error


def is_symbol(expression: Size) -> bool:
    """Return whether ``expression`` is one symbol alone, such as ``batch``."""
    return isinstance(expression, str) and symbols(expression) == {expression}


def evaluate(expression: Size, sizes: Mapping[str, int]) -> int:
    """Return the value of ``expression`` for the given sizes of its symbols.

    Raises:
        InputError: A symbol has no size, or the expression uses anything but integer arithmetic.
    """
    if isinstance(expression, int):
        return expression
    try:
        value = _evaluate(_parse(expression), sizes)
    except (ZeroDivisionError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the dim '{expression}' cannot be evaluated: {error}") from error
    if isinstance(value, float):
        raise InputError(f"the dim '{expression}' is no whole number")
    return value


def holds(condition: str, sizes: Mapping[str, int]) -> bool:
    """Return whether ``condition`` (``n % 6 != 5``, ``Eq(a + b, 16)``) is true for the given sizes.

    Raises:
        InputError: A symbol has no size, or the condition uses anything but comparisons of integers.
    """
    try:
        return _holds(_parse(condition), sizes)
    except (ZeroDivisionError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the condition '{condition}' cannot be evaluated: {error}") from error


def difference(equation: str, sizes: Mapping[str, int]) -> Number:
    """Return by how much the sides of ``Eq(left, right)`` differ.

    Raises:
        InputError: As ``holds``, or it is no equation.
    """
    match _parse(equation):
        case ast.Call(func=ast.Name(id="Eq"), args=[left, right]):
            return _evaluate(left, sizes) - _evaluate(right, sizes)
    raise InputError(f"'{equation}' is no equation")


def _holds(node: ast.expr, sizes: Mapping[str, int]) -> bool:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _COMPARISONS[type(op)](_evaluate(left, sizes), _evaluate(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _RELATIONS:
            return _RELATIONS[name](_evaluate(left, sizes), _evaluate(right, sizes))
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _holds(left, sizes) and _holds(right, sizes)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _holds(left, sizes) or _holds(right, sizes)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return not _holds(operand, sizes)
        case _:
            raise InputError(f"the condition '{ast.unparse(node)}' is no comparison of integers")


def _evaluate(node: ast.expr, sizes: Mapping[str, int]) -> Number:
    value = _value(node, sizes)
    if abs(value) > _LARGEST:
        raise InputError(f"the dim expression '{ast.unparse(node)}' is larger than any size")
    return value


def _value(node: ast.expr, sizes: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            if name not in sizes:
                raise InputError(f"the dim '{name}' has no size")
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, sizes)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)) if 0 <= power <= 8:
            return _evaluate(left, sizes) ** power
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            result: Number = _BINARY[type(op)](_evaluate(left, sizes), _evaluate(right, sizes))
            return result
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _exact_division(_evaluate(left, sizes), _evaluate(right, sizes))
        case ast.Call(func=ast.Name(id="floor"), args=[ast.BinOp(left=left, op=ast.Div(), right=right)]):
            return _evaluate(left, sizes) // _evaluate(right, sizes)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            called: Number = _CALLS[name](*(_evaluate(arg, sizes) for arg in args))
            return called
        case _:
            raise InputError(f"the dim expression '{ast.unparse(node)}' is not integer arithmetic")


def _exact_division(left: Number, right: Number) -> Number:
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    if left % right:
        raise InputError(f"{left} is not divisible by {right}")
    return left // right


def constants(condition: str) -> frozenset[int]:
    """Return the whole numbers that stand in ``condition``: near them it changes."""
    nodes = ast.walk(_parse(condition))
    numbers = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, int | float))
    return frozenset(int(number) for number in numbers if abs(number) < _LARGEST)
