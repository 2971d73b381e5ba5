"""What must be refused before or while torch.export traces, because a compiled graph would answer differently."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram


def refuse_training(module: nn.Module) -> None:
    """Refuse a module of which any part is in train mode.

    Raises:
        RefusedError: Dropout and batch statistics would be compiled as in training.
    """
    for path, part in module.named_modules():
        if part.training:
            name = f"the module '{path}' ({type(part).__name__})" if path else "the model"
            raise RefusedError(
                f"{name} is in train mode",
                slug="train-mode",
                hint="call model.eval() before you hand it in (in model() of a source file)",
            )


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Restore what tracing does to the attributes of ``module``; refuse a forward that stores tensors.

    torch.export runs forward with fake tensors. A forward that assigns ``self.x`` would leave them in the
    user's module, and a later call could read them.

    Raises:
        RefusedError: forward replaced a tensor attribute of the module.
    """
    before = [(path, part, _attributes(part)) for path, part in module.named_modules()]
    yield
    changed = None
    for path, part, attributes in before:
        now = _attributes(part)
        for name in now.keys() | attributes.keys():
            if now.get(name) is not attributes.get(name) and _is_tensor(now.get(name)):
                changed = f"{path}.{name}" if path else name
        _restore(part, attributes)
    if changed is not None:
        raise RefusedError(
            f"forward mutates module state (attribute '{changed}')",
            slug="module-state",
            hint="make the state an explicit input and output of forward",
        )


def _attributes(part: nn.Module) -> dict[str, Any]:
    hidden = {"_parameters", "_buffers", "_modules"}
    plain = {k: v for k, v in vars(part).items() if k not in hidden}
    return plain | dict(part._buffers)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _restore(part: nn.Module, attributes: dict[str, Any]) -> None:
    for name in vars(part).keys() - attributes.keys() - {"_parameters", "_buffers", "_modules"}:
        del vars(part)[name]
    for name, value in attributes.items():
        if name in part._buffers:
            part._buffers[name] = value
        else:
            vars(part)[name] = value


def refuse_mutation(program: ExportedProgram) -> None:
    """Refuse a forward that writes to its module's buffers and parameters, or to its inputs.

    Raises:
        RefusedError: The engine is stateless: later calls, or the caller, would not see the update.
    """
    signature = program.graph_signature
    state = dict(signature.inputs_to_buffers) | dict(signature.inputs_to_parameters)
    inputs = set(signature.user_inputs)
    for node in program.graph.nodes:
        for target in _written(node):
            root = _storage_root(target)
            if root.name in state:
                raise RefusedError(
                    f"forward mutates module state (buffer '{state[root.name].removeprefix('module.')}')",
                    slug="module-state",
                    where=stack_place(node),
                    hint="make the state an explicit input and output of forward",
                )
            if root.name in inputs:
                raise RefusedError(
                    "forward writes into its own inputs, which a caller of the engine would not see",
                    slug="input-mutation",
                    where=stack_place(node),
                    hint="clone the input in forward before changing it",
                )


def _schema_arguments(node: torch.fx.Node) -> list[tuple[Any, Any]]:
    """Return (schema argument, value) pairs of a call; empty for anything but an operator."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return []
    values = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    return [(a, values[a.name]) for a in schema.arguments if a.name in values]


def _written(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield the values whose memory ``node`` writes to, as its schema says."""
    import torch

    for argument, value in _schema_arguments(node):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, torch.fx.Node):
                    yield item


def _storage_root(node: torch.fx.Node) -> torch.fx.Node:
    """Follow views back to the value that owns the memory of ``node``."""
    import operator

    import torch

    while True:
        if node.target is operator.getitem:
            source = node.args[0]
        else:
            source = next((v for a, v in _schema_arguments(node) if a.alias_info is not None), None)
        if not isinstance(source, torch.fx.Node):
            return node
        node = source


def refuse_random(program: ExportedProgram) -> None:
    """Refuse operators that draw random numbers.

    Raises:
        RefusedError: Two runs would differ, so no engine can be compared with eager.
    """
    import torch

    for graph_module in program.graph_module.modules():
        for node in getattr(graph_module, "graph", program.graph).nodes:
            if (
                isinstance(node.target, torch._ops.OpOverload)
                and torch.Tag.nondeterministic_seeded in node.target.tags
                and not _without_dropout(node)
            ):
                raise RefusedError(
                    f"random operator in the graph ({_op_name(node.target)})",
                    slug="random-operator",
                    where=stack_place(node),
                    hint="pass the random numbers in as an input",
                )


def _op_name(target: Any) -> str:
    return str(target).removesuffix(".default")


def _without_dropout(node: torch.fx.Node) -> bool:
    """Attention and dropout carry the random tag also where their probability is 0 or they are off."""
    schema = node.target._schema  # type: ignore[union-attr]
    arguments = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    arguments.update({argument.name: value for argument, value in _schema_arguments(node)})
    if "dropout_p" in arguments:
        return float(arguments["dropout_p"]) == 0.0
    return arguments.get("train") is False


def stack_place(node: torch.fx.Node) -> str | None:
    """Return ``file.py:line`` of the model's code that made ``node``."""
    trace = node.stack_trace or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    if not lines:
        return None
    file, line = lines[-1].split('"')[1], lines[-1].split("line ")[1].split(",")[0]
    return f"{file.rsplit('/', 1)[-1]}:{line}"
