"""Tracing leaves the user's module as it was: what forward stores meanwhile is put back, and refused."""

from __future__ import annotations

import contextlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.errors import RefusedError

if TYPE_CHECKING:
    from torch import nn

_OF_TORCH = ("_buffers", "_parameters")
_SWAPPED = "_flat_weights"
"""Where nn.GRU and its kin list their weights again: torch.export leaves fake ones there, forward none."""
_DEPTH = 4
"""How deep containers are followed: ``self.cache.layers[0].keys`` is at 4."""


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Restore what tracing does to the state of ``module``, also if it fails; refuse stored tensors.

    torch.export runs forward with fake tensors. A forward that assigns ``self.x``, or appends to a list it
    keeps, would leave them in the user's module, and a later call could read them.

    Raises:
        RefusedError: forward stored or replaced a tensor.
    """
    states = [(path, _State(part)) for path, part in module.named_modules()]
    error: Exception | None = None
    try:
        yield
    except Exception as raised:  # noqa: BLE001 - raised again below
        error = raised
    finally:
        changed = [(path, state, name) for path, state in states for name in state.changed()]
        for _, state in states:
            state.restore()
    if changed:
        path, state, name = changed[0]
        raise RefusedError(
            f"forward mutates module state ({state.kind(name)} '{path}.{name}')".replace("'.", "'"),
            slug="module-state",
            where=_assignment(state.part, name),
            hint="make the state an explicit input and output of forward",
        ) from error
    if error is not None:
        raise error


class _State:
    """The attributes of a module, and the entries of the containers that can be reached from them."""

    def __init__(self, part: nn.Module) -> None:
        self.part = part
        self._containers: dict[int, tuple[str, _Container, dict[Any, Any]]] = {}
        self._add("", vars(part), 0)

    def _add(self, name: str, value: Any, depth: int) -> None:
        container = _container(value)
        if container is None or id(container) in self._containers or depth > _DEPTH:
            return
        entries = _entries(container)
        self._containers[id(container)] = (name, container, entries)
        for key, item in entries.items():
            self._add(name or str(key), item, depth + 1)

    def changed(self) -> list[str]:
        """Return the attributes in which a tensor was stored or replaced."""
        names = []
        for name, container, before in self._containers.values():
            now = _entries(container)
            for key in dict.fromkeys([*before, *now]):
                old, new = before.get(key), now.get(key)
                attribute = name if name and name not in _OF_TORCH else str(key)
                replaced = old is not new and (_is_tensor(old) or _holds_tensor(new))
                if replaced and attribute != _SWAPPED:
                    names.append(attribute)
        return names

    def kind(self, name: str) -> str:
        """Return whether ``name`` is a buffer, a parameter or an attribute of another kind."""
        return next((k for k in ("buffer", "parameter") if name in getattr(self.part, f"_{k}s")), "attribute")

    def restore(self) -> None:
        """Put every container's entries back."""
        for _, container, before in self._containers.values():
            now = _entries(container)
            if list(now) == list(before) and all(now[key] is before[key] for key in now):
                continue
            if isinstance(container, list):
                container[:] = before.values()
            else:
                container.clear()
                container.update(before)


_Container = dict[Any, Any] | list[Any]


def _container(value: Any) -> _Container | None:
    """Return the dict or list that holds the state of ``value``; None if it has none or is a module."""
    from torch import nn

    if isinstance(value, dict | list):
        return value
    if isinstance(value, nn.Module | types.ModuleType) or _is_tensor(value) or callable(value):
        return None
    fields = getattr(value, "__dict__", None)
    return fields if isinstance(fields, dict) else None


def _entries(container: _Container) -> dict[Any, Any]:
    return dict(enumerate(container)) if isinstance(container, list) else dict(container)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _holds_tensor(value: Any) -> bool:
    """Return whether ``value`` is a tensor or a container with one in it."""
    if isinstance(value, dict | list | tuple | set):
        return any(map(_holds_tensor, value.values() if isinstance(value, dict) else value))
    return _is_tensor(value)


def _assignment(part: nn.Module, name: str) -> str | None:
    """Return ``file.py:line`` of where forward writes ``self.NAME``, or else of forward itself."""
    try:
        lines, first = inspect.getsourcelines(type(part).forward)
        file = Path(inspect.getfile(type(part).forward)).name
    except (OSError, TypeError):  # no source: defined in a console
        return None
    used = [i for i, line in enumerate(lines) if re.search(rf"\bself\.{re.escape(name)}\b", line)]
    assignment = re.compile(
        rf"\bself\.{re.escape(name)}\b([^=]*[^=!<>])?=[^=]|\.(append|extend|insert|update)\("
    )
    written = [i for i in used if assignment.search(lines[i])]
    return f"{file}:{first + (written or used or [0])[0]}"
