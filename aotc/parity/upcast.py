"""Eager in float64 without a second model: each tensor is upcast when it is used.

Two modes work together. The function mode sees calls of torch's Python API: it upcasts arguments before the
checks that compare dtypes, and lets every narrow tensor report the wide dtype. The dispatch mode sees the
operators below that API. The weights stay in their own dtype, so at any time one weight at most exists twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch  # noqa: TID253 - the modes are subclasses of torch's; only the gate imports this file
from torch.overrides import TorchFunctionMode  # noqa: TID253
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: TID253
from torch.utils._pytree import tree_map  # noqa: TID253

_WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}
_GET_DTYPE = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
_IN_PLACE_CASTS = {torch.Tensor.float: torch.Tensor.double, torch.Tensor.half: torch.Tensor.double}


def upcast(value: Any) -> Any:
    """Return a float64 (or complex128) copy of a narrower floating tensor, anything else unchanged."""
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    return value


def _widen(value: Any) -> Any:
    """Upcast tensors and replace narrow dtypes, so that a cast to float32 becomes one to float64."""
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    return upcast(value)


class _FunctionMode(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is _GET_DTYPE:
            return _widen(func(*args))
        if func is torch.embedding:  # only looks up: no need to widen the whole table
            return upcast(func(*args, **dict(kwargs or {})))
        func = _IN_PLACE_CASTS.get(func, func)
        return func(*tree_map(_widen, args), **tree_map(_widen, dict(kwargs or {})))


class _DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        wide_kwargs = tree_map(_widen, dict(kwargs or {}))
        # These two read a narrow tensor as well as a wide one: a cast needs no second copy of its argument, a
        # lookup none of the whole table.
        if func not in (torch.ops.aten._to_copy.default, torch.ops.aten.embedding.default):
            args = tree_map(_widen, args)
        return tree_map(upcast, func(*args, **wide_kwargs))


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Run everything inside in float64; inputs must be given upcast."""
    with torch.no_grad(), _DispatchMode(), _FunctionMode():  # type: ignore[no-untyped-call]
        yield
