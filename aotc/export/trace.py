"""module -> ExportedProgram: dynamic axes stay dynamic, or the build says which line fixed one."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError
from aotc.export import guards
from aotc.export.axes import Axes
from aotc.export.call import BoundCall, flat_module
from aotc.export.dim_names import DimNames, find_bounds, find_guards, name_dims, specialisations
from aotc.export.module_state import unchanged
from aotc.export.refusals import refusal_of_export
from aotc.export.translations import recurrent
from aotc.signature import Bounds
from aotc.tree import Tree

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram


@dataclasses.dataclass(frozen=True)
class Trace:
    """A traced forward: the program, the structure of its result, and its dims."""

    program: ExportedProgram
    result: Tree
    dims: DimNames
    bounds: dict[str, Bounds]
    guards: tuple[str, ...]


def trace(module: nn.Module, call: BoundCall, tensors: Mapping[str, torch.Tensor], axes: Axes) -> Trace:
    """Trace ``module`` with ``tensors`` in place of the example inputs.

    Dims are traced as ``Dim.AUTO`` and named afterwards: torch.export refuses a named dim whose range it has
    to narrow, where the profile is what says which sizes are wanted, and does not say which line fixed one.

    Raises:
        RefusedError: torch.export cannot trace the model, fixed a dynamic axis, or the model draws random
            numbers or mutates state.
    """
    results: list[Tree] = []
    flat = flat_module(module, call, results.append)
    with unchanged(module), quiet(), specialisations() as fixed:
        program = _export(flat, tuple(_distinct(tensors)), _dynamic_shapes(tensors, axes))
    guards.refuse_mutation(program)
    guards.refuse_random(program)
    shapes = [node.meta["val"].shape for node in _user_placeholders(program)]
    names = name_dims(dict(zip(tensors, shapes, strict=True)), axes, fixed)
    bounds = find_bounds(program.range_constraints, shapes, names, axes)
    return Trace(program, results[-1], names, bounds, find_guards(shapes, names))


def _distinct(tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """One tensor passed for two arguments would be traced as one input."""
    return [t.detach().clone(memory_format=_contiguous()) for t in tensors.values()]


def _contiguous() -> Any:
    import torch

    return torch.contiguous_format


def _dynamic_shapes(tensors: Mapping[str, torch.Tensor], axes: Axes) -> tuple[Any, ...]:
    from torch.export import Dim

    return (tuple(dict.fromkeys(axes.get(name, {}), Dim.AUTO) or None for name in tensors),)


def _export(flat: nn.Module, args: tuple[torch.Tensor, ...], shapes: tuple[Any, ...]) -> ExportedProgram:
    import torch

    printed = io.StringIO()
    try:
        with torch.no_grad(), contextlib.redirect_stderr(printed), recurrent.whole_operators():
            program = torch.export.export(flat, args, dynamic_shapes=shapes, strict=False)
    except RefusedError:
        raise
    except Exception as error:
        # What it printed is its graph so far; the refusal says what matters.
        raise refusal_of_export(error) from error
    sys.stderr.write(printed.getvalue())
    return program


def _user_placeholders(program: ExportedProgram) -> list[Any]:
    wanted = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in wanted]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop the exporter's own warnings and log lines: none is about something the user can change."""
    import logging

    names = ("torch.onnx", "torch.export", "torch._export", "torch.fx.experimental.symbolic_shapes")
    loggers = [logging.getLogger(name) for name in names]
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
