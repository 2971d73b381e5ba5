"""What must be refused before or while torch.export traces, because a compiled graph would answer differently."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
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
    before = [(path, part, _State(part)) for path, part in module.named_modules()]
    changed: tuple[str, nn.Module, str] | None = None
    try:
        yield
    finally:
        for path, part, state in before:
            for name in state.changed():
                changed = changed or (f"{path}.{name}" if path else name, part, name)
            state.restore()
        if changed is not None:
            # Also where tracing failed: a fake tensor that was stored is the likely cause.
            raise RefusedError(
                f"forward mutates module state (attribute '{changed[0]}')",
                slug="module-state",
                where=_assignment(changed[1], changed[2]),
                hint="make the state an explicit input and output of forward",
            )


class _State:
    """The attributes of a module, and the entries of every container that can be reached from them.

    A forward may store tensors in ``self.x``, in a list or dict it keeps, or in an object such as a cache.
    """

    def __init__(self, part: nn.Module) -> None:
        self._part = part
        self._fields: list[tuple[str, _Container, dict[Any, Any]]] = []
        seen: set[int] = set()
        self._add("", vars(part), seen)

    def _add(self, name: str, value: Any, seen: set[int]) -> None:
        container = _container(value)
        if container is None or id(container) in seen:
            return
        seen.add(id(container))
        entries = dict(_entries(container))
        self._fields.append((name, container, entries))
        for key, item in entries.items():
            if not (container is vars(self._part) and key in _TORCH_OWN):
                self._add(name or str(key), item, seen)

    def changed(self) -> list[str]:
        """Return the attributes that hold or held another tensor."""
        names = []
        for name, container, before in self._fields:
            now = dict(_entries(container))
            for key in [*before, *(key for key in now if key not in before)]:
                old, new = before.get(key), now.get(key)
                if old is not new and (_is_tensor(old) or _holds_tensor(new)):
                    names.append(str(key) if name in ("", "_buffers", "_parameters") else name)
        return names

    def restore(self) -> None:
        """Put every container's entries back."""
        for _, container, before in self._fields:
            if isinstance(container, list):
                container[:] = before.values()
            elif [*_entries(container)] != [*before.items()]:
                container.clear()
                container.update(before)


_Container = dict[Any, Any] | list[Any]
_TORCH_OWN = ("_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _container(value: Any) -> _Container | None:
    """Return the dict or list whose entries are the state of ``value``; None for what holds none."""
    from torch import nn

    if isinstance(value, dict | list):
        return value
    if _is_tensor(value) or callable(value) or isinstance(value, nn.Module) or not hasattr(value, "__dict__"):
        return None
    return vars(value) if isinstance(vars(value), dict) else None


def _entries(container: _Container) -> Iterator[tuple[Any, Any]]:
    yield from enumerate(container) if isinstance(container, list) else list(container.items())


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _holds_tensor(value: Any) -> bool:
    """Return whether ``value`` is a tensor or a container with one in it."""
    if isinstance(value, dict | list | tuple | set):
        return any(map(_holds_tensor, value.values() if isinstance(value, dict) else value))
    return _is_tensor(value)


def _assignment(part: nn.Module, name: str) -> str | None:
    """Return ``file.py:line`` of where forward touches ``self.NAME``, or else of forward itself."""
    try:
        lines, first = inspect.getsourcelines(type(part).forward)
        file = Path(inspect.getfile(type(part).forward)).name
    except (OSError, TypeError):
        return None
    uses = [i for i, line in enumerate(lines) if re.search(rf"\bself\.{re.escape(name)}\b", line)]
    written = [i for i in uses if re.search(r"[^=!<>]=[^=]|\.(append|update|extend|insert)\(", lines[i])]
    return f"{file}:{first + (written or uses or [0])[0]}"


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
    train = arguments.get("train", arguments.get("training"))
    return train is False or (train is not None and arguments.get("p") == 0)


def stack_place(node: torch.fx.Node) -> str | None:
    """Return ``file.py:line`` of the model's code that made ``node``."""
    trace = node.stack_trace or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    if not lines:
        return None
    file, line = lines[-1].split('"')[1], lines[-1].split("line ")[1].split(",")[0]
    return f"{file.rsplit('/', 1)[-1]}:{line}"
