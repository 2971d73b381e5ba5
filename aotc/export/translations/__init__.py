"""Operators that the exporter lacks or gets wrong: one file a family, which says what eager means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc.export.translations import (
    arithmetic,
    attention,
    embedding_bag,
    recurrent,
    require,
    scatter,
    shifts,
    sort,
)

_FAMILIES = (arithmetic, attention, embedding_bag, recurrent, require, scatter, shifts, sort)


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return our own translation by operator, as ``torch.onnx.export`` takes them."""
    return {op: function for family in _FAMILIES for op, function in family.table().items()}
