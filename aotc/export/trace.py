"""module -> ExportedProgram: dynamic axes given by the user stay dynamic, or the build says which line fixed them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError, UsageError
from aotc.export import guards
from aotc.export.axes import Axes
from aotc.export.call import BoundCall, flat_module
from aotc.signature import Bounds
from aotc.tree import Tree

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram


@dataclasses.dataclass(frozen=True)
class Trace:
    """A traced forward. ``dim_names`` maps the exporter's symbols to the user's dims."""

    program: ExportedProgram
    result: Tree
    dim_names: dict[str, str]
    bounds: dict[str, Bounds]
    static_auto: tuple[str, ...]
    """Axes that the user left to the exporter and that it found to be static."""


def trace(module: nn.Module, call: BoundCall, tensors: Mapping[str, torch.Tensor], axes: Axes) -> Trace:
    """Trace ``module`` with ``tensors`` in place of the example inputs.

    Named dims are traced as anonymous dynamic dims and named afterwards: torch.export refuses a named dim
    whose range it has to narrow, and the profile is what says which sizes are wanted.

    Raises:
        RefusedError: torch.export cannot trace the model, fixed a dynamic axis, or the model draws random
            numbers or mutates state.
    """
    results: list[Tree] = []
    flat = flat_module(module, call, results.append)
    with guards.unchanged(module), quiet():
        program = _export(flat, tuple(_distinct(tensors)), _dynamic_shapes(tensors, axes))
    guards.refuse_mutation(program)
    guards.refuse_random(program)
    names, static = _name_dims(program, list(tensors), axes)
    return Trace(program, results[-1], names, _bounds(program, names), static)


def _distinct(tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """One tensor passed for two arguments would be traced as one input."""
    return [t.detach().clone(memory_format=_contiguous()) for t in tensors.values()]


def _contiguous() -> Any:
    import torch

    return torch.contiguous_format


def _dynamic_shapes(tensors: Mapping[str, torch.Tensor], axes: Axes) -> tuple[Any, ...]:
    from torch.export import Dim

    hint: dict[bool, Any] = {True: Dim.AUTO, False: Dim.DYNAMIC}
    flat = tuple({a: hint[axis.auto] for a, axis in axes.get(name, {}).items()} or None for name in tensors)
    return (flat,)


def _export(flat: nn.Module, args: tuple[torch.Tensor, ...], shapes: tuple[Any, ...]) -> ExportedProgram:
    import torch

    try:
        with torch.no_grad():
            return torch.export.export(flat, args, dynamic_shapes=shapes, strict=False)
    except RefusedError:
        raise
    except Exception as error:  # noqa: BLE001 - torch.export raises many types; forward's own errors are among them
        raise refusal_of_export(error) from error


def refusal_of_export(error: BaseException) -> RefusedError:
    """Turn an exception of torch.export or the exporter into a refusal that names the cause and the line."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    text = "\n".join(str(e) for e in chain)
    where = _user_frame(text) or _traceback_frame(chain[-1])
    if "data-dependent" in text:
        return RefusedError(
            f"data-dependent control flow: {_first_line(chain, 'data-dependent')}",
            slug="data-dependent",
            where=where,
            hint="use torch.where or torch.cond instead of a Python branch on a tensor's value",
        )
    if "specialized" in text or "Constraints violated" in text:
        return RefusedError(
            f"a dynamic axis was fixed by the model: {_first_line(chain, 'specializ', 'Constraints')}",
            slug="specialised-dim",
            where=where,
            hint="make that axis static in dynamic_shapes, or change the line that fixes it",
        )
    return RefusedError(
        f"torch.export cannot trace this model: {_first_line(chain)}", slug="export", where=where
    )


def _first_line(chain: list[BaseException], *needles: str) -> str:
    for error in reversed(chain):
        for line in str(error).splitlines():
            if line.strip() and (not needles or any(n in line for n in needles)):
                kind = "" if needles else f"{type(error).__name__}: "
                return _without_addresses(kind + line.strip())[:400]
    return type(chain[-1]).__name__


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _user_frame(text: str) -> str | None:
    """Return the innermost line of user code that torch.export quotes in its own message."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (?:forward|\w+)', text)
    own = [f for f in frames if "/torch/" not in f[0]]
    return f"{own[-1][0].rsplit('/', 1)[-1]}:{own[-1][1]}" if own else None


def _traceback_frame(error: BaseException) -> str | None:
    """Return the innermost frame that is neither torch's nor ours."""
    place, traceback = None, error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if "/torch/" not in file and "/aotc/" not in file and not file.startswith("<"):
            place = f"{file.rsplit('/', 1)[-1]}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def _name_dims(
    program: ExportedProgram, inputs: list[str], axes: Axes
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Map each symbol to the user's dim; check that dynamic axes are dynamic in the program."""
    names: dict[str, str] = {}
    static: list[str] = []
    for name, placeholder in zip(inputs, _user_placeholders(program), strict=True):
        shape = placeholder.meta["val"].shape
        for index, axis in axes.get(name, {}).items():
            if index >= len(shape):
                raise UsageError(
                    f"dynamic_shapes gives axis {index} of '{name}', which has {len(shape)} axes"
                )
            label = f"axis {index} of input '{name}'" + (f" ('{axis.name}')" if axis.name else "")
            if isinstance(shape[index], int):
                if not axis.auto:
                    raise _specialised(label, shape[index])
                static.append(label)
                continue
            symbol = str(shape[index].node.expr)
            if symbol.isidentifier():
                wanted = axis.name or f"{name.replace('.', '_')}_{index}"
                _assign(names, symbol, wanted, named=axis.name is not None)
    return names, tuple(static)


def _assign(names: dict[str, str], symbol: str, wanted: str, *, named: bool) -> None:
    if not wanted.isidentifier():
        # A derived dim such as 2*batch: the exporter did not relate it, so it stays a symbol of its own.
        wanted = re.sub(r"\W+", "_", wanted).strip("_")
        wanted = wanted if wanted.isidentifier() else f"dim_{wanted}"
    known = names.setdefault(symbol, wanted)
    if known != wanted and named:
        raise RefusedError(
            f"the dims '{known}' and '{wanted}' must be equal in this model",
            slug="specialised-dim",
            hint=f"use one Dim for both: '{known}'",
        )


def _specialised(label: str, size: int) -> RefusedError:
    return RefusedError(
        f"{label} was declared dynamic, but the model fixes it to {size}",
        slug="specialised-dim",
        hint="give an example input whose size there is at least 2, or make the axis static in dynamic_shapes",
    )


def _user_placeholders(program: ExportedProgram) -> list[Any]:
    wanted = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in wanted]


def _bounds(program: ExportedProgram, names: Mapping[str, str]) -> dict[str, Bounds]:
    """Bounds that the model's own code sets on a dim.

    torch.export's lower bound of 2 only says that sizes 0 and 1 were not traced; whether the engine is right
    there is for the gate to find out. A dim that another input axis is computed from (``16 - seq``) inherits
    such artefacts as upper bounds, so it gets none.
    """
    bounds: dict[str, Bounds] = {}
    derived = _derived_symbols(program)
    for symbol, allowed in program.range_constraints.items():
        name = names.get(str(symbol))
        low, high = _finite(allowed.lower), _finite(allowed.upper)
        low = low if low is not None and low > 2 else 0
        if name is None or str(symbol) in derived or (low == 0 and high is None):
            continue
        known = bounds.get(name, Bounds())
        limits = [m for m in (known.max, high) if m is not None]
        bounds[name] = Bounds(min=max(known.min, low), max=min(limits) if limits else None)
    return bounds


def _derived_symbols(program: ExportedProgram) -> set[str]:
    sizes = [s for n in _user_placeholders(program) for s in n.meta["val"].shape if not isinstance(s, int)]
    expressions = [s.node.expr for s in sizes if not s.node.expr.is_symbol]
    return {str(symbol) for e in expressions for symbol in e.free_symbols}


def _finite(bound: Any) -> int | None:
    return int(bound) if bound.is_Integer else None


@contextlib.contextmanager
def quiet() -> Any:
    """Drop the exporter's own warnings and log lines: none is about something the user can change."""
    import logging

    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "torch._export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
