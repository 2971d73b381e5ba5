"""Dim expressions: evaluated without sympy, and nothing but integer arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotc import dims
from aotc.errors import InputError

SIZES = {"n": 7, "batch": 2, "s": 0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n", 7),
        ("n + 1", 8),
        ("2*n - batch", 12),
        ("(n//2)", 3),
        ("(((n - 3)//2)) + 1", 3),
        ("n % 4", 3),
        ("Mod(n, 4)", 3),
        ("Min(128, n)", 7),
        ("Max(n, batch, 9)", 9),
        ("n**2", 49),
        ("-(n) + 10", 3),
        ("-(n)", -7),
        ("14/n", 2),
        ("floor(n/2)", 3),
        ("floor(n)", 7),
        ("FloorDiv(n, 2)", 3),
        ("12", 12),
    ],
)
def test_values(text: str, value: int) -> None:
    assert dims.evaluate(text, SIZES) == value


def test_a_number_is_itself() -> None:
    assert dims.evaluate(5, {}) == 5
    assert dims.symbols(5) == frozenset()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m", "the dim 'm' has no size"),
        ("n/2", "7 is not divisible by 2"),
        ("n//s", "cannot be evaluated"),
        ("n %", "is not an expression"),
        ("True*n", "not integer arithmetic"),
        ("True", "not integer arithmetic"),
        ("__import__('os')", "not integer arithmetic"),
        ("n.real", "not integer arithmetic"),
        ("Min(n, key=n)", "not integer arithmetic"),
        ("[n for n in n]", "not integer arithmetic"),
        ("n**9", "not integer arithmetic"),
        ("n**-1", "not integer arithmetic"),
        ("(n**8)**8", "larger than any size"),
        ("Mod(n)", "cannot be evaluated"),
        ("n" * 401, "more than 400"),
    ],
)
def test_anything_else_is_an_input_error(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dims.evaluate(text, SIZES)


def test_symbols_leave_functions_out() -> None:
    assert dims.symbols("Min(n, 2*batch) + floor(k/2)") == {"n", "batch", "k"}


@pytest.mark.parametrize(
    ("text", "alone"),
    [("n", True), ("n + 1", False), ("2*n", False), ("12", False), ("Max", False), (3, False)],
)
def test_a_symbol_is_one_name_alone(text: dims.Size, alone: bool) -> None:
    assert dims.is_symbol(text) is alone


@given(st.integers(0, 1000), st.integers(1, 50), st.integers(-50, 50))
def test_agrees_with_python(n: int, a: int, b: int) -> None:
    assert (
        dims.evaluate(f"Max(0, (n + {b})//{a}) * {a} + n % {a}", {"n": n}) == max(0, (n + b) // a) * a + n % a
    )
