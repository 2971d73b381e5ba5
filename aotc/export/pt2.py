"""A .pt2 file as a source: a program that ``torch.export.save`` wrote, loaded only on the user's word."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.errors import UsageError
from aotc.export.dim_names import free_dim_name, rename_symbols
from aotc.export.source import Sizes, Source, as_given
from aotc.export.trace import quiet

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram


def load_program(
    path: Path, sizes: Mapping[str, Sizes] | None = None, *, trust_source: bool = False
) -> Source:
    """Return the source of the program at ``path``.

    A program does not keep the names of its Dims: they are named after the first input axis that has them,
    ``x_0`` for the first axis of ``x``.

    Args:
        path: The file.
        sizes: (min, opt, max) by dim name.
        trust_source: Load it, which executes whatever its pickles and expressions hold.

    Raises:
        UsageError: Not trusted, no such program, or one without example inputs.
    """
    if not trust_source:
        raise UsageError(
            f"loading {path.name} can execute code that is hidden in it",
            slug="untrusted-source",
            where=str(path),
            hint="give --trust-source if you trust whoever made it",
        )
    program = _load(path)
    if program.example_inputs is None:
        raise UsageError(
            f"the program in {path.name} has no example inputs",
            slug="source",
            where=str(path),
            hint="set program.example_inputs = (args, kwargs) before torch.export.save",
        )
    args, kwargs = program.example_inputs
    loaded = [_module(program)]
    arguments = inspect.signature(loaded[0].forward)
    axes, keyword_axes = _dynamic_shapes(program)
    return Source(
        name=path.stem,
        # Given away, so that its weights are freed when the caller is done with it.
        model=lambda: loaded.pop() if loaded else _module(_load(path)),
        inputs=dict(arguments.bind(*args, **kwargs).arguments),
        dynamic_shapes=dict(arguments.bind(*axes, **keyword_axes).arguments),
        profiles=[sizes] if sizes else (),
        path=as_given(path, sizes or {}, "--trust-source"),
    )


def _load(path: Path) -> ExportedProgram:
    import torch

    try:
        with quiet():
            return torch.export.load(path)
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(
            f"torch.export.load cannot read {path.name}: {text}",
            slug="source",
            where=str(path),
            hint="save the program again with torch.export.save, in this version of torch",
        ) from error


def _module(program: ExportedProgram) -> nn.Module:
    """Return the module of ``program``, with a forward that is called as the exported one was.

    Its own forward calls every argument positional and then refuses keywords passed so. While it is traced
    again, its nodes are run one by one: only then do the new ones know their module and line.
    """
    import torch
    from torch.fx._pytree import tree_flatten_spec
    from torch.fx.traceback import preserve_node_meta

    module = program.module()
    own = type(module).forward

    def forward(self: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_exporting():
            return own(self, *args, **kwargs)
        with preserve_node_meta():
            return torch.fx.Interpreter(self).run(
                *tree_flatten_spec((args, kwargs), program.call_spec.in_spec)
            )

    forward.__signature__ = _signature(inspect.signature(own), program)  # type: ignore[attr-defined]
    type(module).forward = forward
    return module


def _signature(own: inspect.Signature, program: ExportedProgram) -> inspect.Signature:
    keywords = program.call_spec.in_spec.children()[1].context
    return own.replace(
        parameters=[
            p.replace(kind=p.KEYWORD_ONLY) if name in keywords else p for name, p in own.parameters.items()
        ]
    )


def _dynamic_shapes(program: ExportedProgram) -> Any:
    """Return (args, kwargs) with, in place of each tensor, a Dim or an expression of dims by dynamic axis."""
    from torch.export.graph_signature import InputKind
    from torch.utils._pytree import tree_unflatten

    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    shapes = {name: getattr(values[name], "shape", ()) for name in inputs}
    symbolic = {
        (name, axis): str(size.node.expr)
        for name, shape in shapes.items()
        for axis, size in enumerate(shape)
        if not isinstance(size, int)
    }
    names = _names(symbolic)
    dims = {names[str(s)]: limits for s, limits in program.range_constraints.items() if str(s) in names}
    leaves: dict[str, dict[int, Any]] = {name: {} for name in inputs}
    for (name, axis), size in symbolic.items():
        dim = rename_symbols(size, names)
        leaves[name][axis] = _dim(dim, dims[dim]) if dim in dims else dim
    return tree_unflatten([found or None for found in leaves.values()], program.call_spec.in_spec)


def _names(symbolic: Mapping[tuple[str, int], str]) -> dict[str, str]:
    """Return a dim name by symbol, after the first axis that has that size alone."""
    names: dict[str, str] = {}
    for (name, axis), size in symbolic.items():
        if size.isidentifier() and size not in names:
            names[size] = free_dim_name(f"{name}_{axis}", names.values())
    return names


def _dim(name: str, limits: Any) -> Any:
    from torch.export import Dim

    highest = int(limits.upper) if limits.upper.is_Integer else None
    return Dim(name, min=int(limits.lower), max=highest)
