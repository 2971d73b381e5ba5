"""What is refused before or after torch.export traces, because a compiled graph would answer differently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError, UsageError
from aotc.export.refusals import quoted_line

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram


def refuse_module(module: Any) -> None:
    """Refuse what torch.export does not trace: something else than a module, or a TorchScript one.

    Raises:
        UsageError: Not an ``nn.Module``.
        RefusedError: A ``ScriptModule``, or a module that holds one.
    """
    import torch
    from torch import nn

    if not isinstance(module, nn.Module):
        raise UsageError(
            f"the model is a {type(module).__qualname__}, not a torch.nn.Module",
            slug="source",
            hint="model() returns the module itself, with its weights",
        )
    for path, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            name = f"the module '{path}'" if path else "the model"
            raise RefusedError(
                f"{name} is a TorchScript module, which torch.export cannot trace",
                slug="script-module",
                hint="hand in the nn.Module that it was made from",
            )


def refuse_training(module: nn.Module) -> None:
    """Refuse a module of which any part is in train mode.

    A part that came out of torch.export has no mode: what it does in training is written in its graph.

    Raises:
        RefusedError: Dropout and batch statistics would be compiled as in training.
    """
    exported: list[str] = []
    for path, part in module.named_modules():
        if "train" in vars(part):  # torch.export puts there a function that raises
            exported.append(f"{path}." if path else "")
        if part.training and not any(f"{path}.".startswith(prefix) for prefix in exported):
            name = f"the module '{path}' ({type(part).__name__})" if path else "the model"
            raise RefusedError(
                f"{name} is in train mode",
                slug="train-mode",
                hint="call model.eval() before you hand it in (in model() of a source file)",
            )


def refuse_mutation(program: ExportedProgram) -> None:
    """Refuse a forward that writes to its module's buffers and parameters, or to its inputs.

    Raises:
        RefusedError: The engine is stateless: later calls, or the caller, would not see the update.
    """
    signature = program.graph_signature
    state = {
        **{name: ("buffer", target) for name, target in signature.inputs_to_buffers.items()},
        **{name: ("parameter", target) for name, target in signature.inputs_to_parameters.items()},
        **{n: ("attribute", target) for n, target in signature.inputs_to_lifted_tensor_constants.items()},
    }
    inputs = set(signature.user_inputs)
    for node in program.graph.nodes:
        for target in _written(node):
            root = _storage_root(target)
            if root.name in state:
                kind, path = state[root.name]
                raise RefusedError(
                    f"forward mutates module state ({kind} '{path.removeprefix('module.')}')",
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


def refuse_complex(program: ExportedProgram, inputs: Iterable[str], outputs: Iterable[str]) -> None:
    """Refuse complex inputs and outputs: ONNX has them as pairs of real numbers.

    Raises:
        RefusedError: Names the first.
    """
    by_name = {node.name: node for node in program.graph.nodes}
    signature = program.graph_signature
    for names, found in ((inputs, signature.user_inputs), (outputs, signature.user_outputs)):
        for name, inner in zip(names, found, strict=True):
            node = by_name.get(str(inner))
            value = node.meta.get("val") if node is not None else None
            if value is not None and value.is_complex():
                dtype = str(value.dtype).removeprefix("torch.")
                raise RefusedError(
                    f"'{name}' is {dtype}, which no array of this runtime holds",
                    slug="unsupported-dtype",
                    where=stack_place(by_name[str(inner)]),
                    hint="use torch.view_as_real and torch.view_as_complex in forward",
                )


def schema_arguments(node: torch.fx.Node) -> list[tuple[Any, Any]]:
    """Return (schema argument, value) pairs of a call; empty for anything but an operator."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return []
    values = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    return [(a, values[a.name]) for a in schema.arguments if a.name in values]


def _written(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield the values whose memory ``node`` writes to, as its schema says."""
    import torch

    for argument, value in schema_arguments(node):
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
            source = next((v for a, v in schema_arguments(node) if a.alias_info is not None), None)
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
    arguments.update({argument.name: value for argument, value in schema_arguments(node)})
    if "dropout_p" in arguments:
        return float(arguments["dropout_p"]) == 0.0
    train = arguments.get("train", arguments.get("training"))
    return train is False or (train is not None and arguments.get("p") == 0)


def stack_place(node: torch.fx.Node) -> str | None:
    """Return ``file.py:line`` of the model's code that made ``node``."""
    return quoted_line(node.stack_trace or "")
