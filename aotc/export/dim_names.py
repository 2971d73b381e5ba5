"""Names and bounds of dims: the exporter's symbols get the user's names, or one made from the input's."""

from __future__ import annotations

import contextlib
import dataclasses
import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from aotc import dims
from aotc.errors import RefusedError, UsageError
from aotc.export.axes import Axes, DynamicAxis
from aotc.export.refusals import current_line
from aotc.signature import Bounds


@dataclasses.dataclass(frozen=True)
class StaticAxis:
    """An axis that was to be dynamic and has one size in the program; ``where`` is the line that fixed it."""

    input: str
    axis: int
    size: int
    where: str | None

    def __str__(self) -> str:
        """Return the note that a build prints."""
        where = f" ({self.where})" if self.where else ""
        return f"axis {self.axis} of input '{self.input}' is static in this model{where}"


@dataclasses.dataclass(frozen=True)
class DimNames:
    """``names`` maps the exporter's symbols to dims: names, or expressions such as ``2*batch``.

    ``anonymous`` dims are those to which the user gave no name; ``static`` are the axes that the user left to
    the exporter (``Dim.AUTO``) and that it found to be static.
    """

    names: dict[str, str]
    anonymous: frozenset[str]
    static: tuple[StaticAxis, ...]


def find_guards(shapes: Sequence[Sequence[Any]], names: DimNames) -> tuple[str, ...]:
    """Return the conditions on sizes under which forward took the branches that it took, in the user's dims.

    torch.export keeps them in its own program and not in what it exports: a graph traced at ``n % 2 == 0``
    answers at every n.
    """
    sizes = [size for shape in shapes for size in shape if not isinstance(size, int)]
    if not sizes:
        return ()
    conditions = [str(guard.expr) for guard in sizes[0].node.shape_env.guards]
    return tuple(dict.fromkeys(rename_symbols(text, names.names) for text in conditions))


def rename_symbols(text: str, names: Mapping[str, str]) -> str:
    """Return a condition or expression with its symbols renamed, in parentheses if to an expression."""

    def renamed(match: re.Match[str]) -> str:
        name = names.get(match[0], match[0])
        return name if name.isidentifier() else f"({name})"

    return re.sub(r"\b[A-Za-z_]\w*\b", renamed, text)


def name_dims(shapes: Mapping[str, Sequence[Any]], axes: Axes, fixed: Mapping[str, str]) -> DimNames:
    """Name every symbol of the traced inputs; the user's names come first.

    Args:
        shapes: Traced shapes by input.
        axes: What the user said about each axis.
        fixed: Lines that fixed a symbol's size.

    Raises:
        UsageError: An axis that an input does not have.
        RefusedError: The model fixes an axis that was declared dynamic, or makes two dims equal.
    """
    symbols: dict[tuple[str, int], str] = {}
    static = []
    for name, index, axis in _declared(axes):
        if not 0 <= index < len(shapes[name]):
            raise UsageError(
                f"dynamic_shapes gives axis {index} of '{name}', which has {len(shapes[name])} axes",
                slug="dynamic-shapes",
                hint="count axes from 0",
            )
        size = shapes[name][index]
        expression = str(size if isinstance(size, int) else size.node.expr)
        if expression.isdecimal():
            symbol = "" if isinstance(size, int) else str(size.node._expr)
            found = StaticAxis(name, index, int(expression), fixed.get(symbol))
            if not axis.auto:
                raise _specialised(found, axis)
            static.append(found)
        elif expression.isidentifier():
            symbols[name, index] = expression
    names, anonymous = _assign(symbols, axes)
    return DimNames(names, anonymous, tuple(static))


def _declared(axes: Axes) -> Iterator[tuple[str, int, DynamicAxis]]:
    yield from ((name, index, axis) for name, found in axes.items() for index, axis in found.items())


def _assign(symbols: Mapping[tuple[str, int], str], axes: Axes) -> tuple[dict[str, str], frozenset[str]]:
    names: dict[str, str] = {}
    for place, symbol in symbols.items():
        wanted = axes[place[0]][place[1]].name
        if wanted is not None and names.setdefault(symbol, wanted) != wanted:
            raise RefusedError(
                f"the dims '{names[symbol]}' and '{wanted}' must be equal in this model",
                slug="specialised-dim",
                hint=f"use one Dim for both: '{names[symbol]}'",
            )
    taken = {s for _, _, axis in _declared(axes) if axis.name is not None for s in dims.symbols(axis.name)}
    anonymous = set()
    for (name, index), symbol in symbols.items():
        if symbol not in names:
            wanted = free_dim_name(f"{name}_{index}", taken)
            names[symbol] = wanted
            taken.add(wanted)
            anonymous.add(wanted)
    return names, frozenset(anonymous)


def free_dim_name(text: str, taken: Collection[str]) -> str:
    """Return a name like ``text`` that can stand in an expression of dims and is not in ``taken``."""
    name = re.sub(r"\W", "_", text)
    name = name if name.isidentifier() else f"dim_{name}"
    while name in taken or keyword.iskeyword(name) or not dims.is_symbol(name):
        name += "_"
    return name


def _specialised(found: StaticAxis, axis: DynamicAxis) -> RefusedError:
    dim = f" ('{axis.name}')" if axis.name else ""
    return RefusedError(
        f"axis {found.axis} of input '{found.input}'{dim} was declared dynamic, but the model fixes it "
        f"to {found.size}",
        slug="specialised-dim",
        where=found.where,
        hint="make that axis static in dynamic_shapes, or change the line that fixes it",
    )


def find_bounds(
    ranges: Mapping[Any, Any], shapes: Sequence[Sequence[Any]], named: DimNames, axes: Axes
) -> dict[str, Bounds]:
    """Return the sizes that the model's own code, or a ``Dim`` with ``min`` and ``max``, allows.

    torch.export's lower bound of 2 only says that sizes 0 and 1 were not traced; whether the engine is right
    there is for the gate to find out. A dim that another input axis is computed from (``16 - seq``) inherits
    such artefacts as upper bounds, so it gets none.
    """
    found = [(axis.name, axis.bounds) for _, _, axis in _declared(axes) if axis.name in named.names.values()]
    derived = _derived_symbols(shapes)
    for symbol, allowed in ranges.items():
        name = named.names.get(str(symbol))
        low, high = _finite(allowed.lower), _finite(allowed.upper)
        if name is not None and str(symbol) not in derived:
            found.append((name, Bounds(min=low if low is not None and low > 2 else 0, max=high)))
    bounds: dict[str, Bounds] = {}
    for name, limit in found:
        if name is not None and dims.is_symbol(name) and limit != Bounds():
            bounds[name] = bounds.get(name, Bounds()).intersection(limit)
    return dict(sorted(bounds.items()))


def _derived_symbols(shapes: Sequence[Sequence[Any]]) -> set[str]:
    sizes = [size.node.expr for shape in shapes for size in shape if not isinstance(size, int)]
    return {str(symbol) for size in sizes if not size.is_symbol for symbol in size.free_symbols}


def _finite(bound: Any) -> int | None:
    return int(bound) if bound.is_Integer else None


@contextlib.contextmanager
def specialisations() -> Iterator[dict[str, str]]:
    """Record, by symbol, the line of the user's code at which torch.export first fixed its size.

    torch.export itself tells only under a log setting, so its one method that fixes a symbol is observed;
    where a version of torch lacks it, refusals lack the line.
    """
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    places: dict[str, str] = {}
    original = getattr(ShapeEnv, "_set_replacement", None)

    def observed(env: Any, symbol: Any, *args: Any, **kwargs: Any) -> Any:
        if (place := current_line()) is not None:
            places.setdefault(str(symbol), place)
        assert original is not None
        return original(env, symbol, *args, **kwargs)

    if original is not None:
        ShapeEnv._set_replacement = observed  # type: ignore[method-assign,assignment]
    try:
        yield places
    finally:
        if original is not None:
            ShapeEnv._set_replacement = original  # type: ignore[method-assign]
