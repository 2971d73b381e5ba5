"""Which values of a bundle are those of a source that has changed since.

Names of values are numbers by operator: one more ``aten.mul`` gives the names of all behind it to others. So
the bundle's graph is compared with the one that the same passes make of the source now. Up to the first node
that is another one names mean the same; behind it, nodes are matched in order.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.ir import scopes
from aotc.parity.inner_values import InnerValues, Origin, Values
from aotc.rewrite.regions import attribute_key


@dataclasses.dataclass(frozen=True)
class Renamed(InnerValues):
    """The values of ``inner`` by the names that they have in a bundle; ``own`` gives their own names."""

    inner: InnerValues
    own: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:  # type: ignore[override]
        """Return the bundle's names of the values that are known."""
        return frozenset(self.own)

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]], wanted: Collection[str]) -> Values:
        """Return the ``wanted`` values; raises as the run of ``inner``."""
        found = self.inner.run(feeds, {self.own[name] for name in wanted})
        return {name: found[self.own[name]] for name in wanted}

    def run_float64(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], wanted: Collection[str]
    ) -> Values | None:
        """Return them from a float64 run; None where an operator does not run in float64."""
        found = self.inner.run_float64(feeds, {self.own[name] for name in wanted})
        return None if found is None else {name: found[self.own[name]] for name in wanted}

    def origin(self, name: str) -> Origin:
        """Return where the value comes from in the source as it is now."""
        return self.inner.origin(self.own[name])

    def modules(self, name: str, stops: Collection[str]) -> list[str]:
        """Return the paths of the modules between, as they are now."""
        return self.inner.modules(self.own[name], [self.own[stop] for stop in stops])


@dataclasses.dataclass(frozen=True)
class _Step:
    """A node of the main graph: the names of its results, and what it keeps if names or numbers change."""

    results: tuple[str, ...]
    place: tuple[object, ...]
    content: tuple[object, ...]

    @classmethod
    def of(cls, node: ir.Node) -> _Step:
        operator = scopes.module_path(node), node.domain, node.op_type, len(node.outputs)
        attributes = sorted(str(attribute_key(each)) for each in node.attributes.values())
        names = tuple(value.name for value in node.inputs if value is not None and not value.is_initializer())
        numbers = tuple(_scalar(value) for value in node.inputs if value is not None)
        return cls(
            tuple(str(value.name) for value in node.outputs),
            (*operator, names),
            (*operator, *attributes, numbers),
        )


def _scalar(value: ir.Value) -> float | None:
    """Return the number that a constant is; None for larger ones, and for what is computed."""
    tensor = value.const_value if value.is_initializer() else None
    return tensor.numpy().reshape(-1)[0].item() if tensor is not None and tensor.size == 1 else None


def by_names_of(built: ir.Graph, now: ir.Graph, inner: InnerValues) -> Renamed:
    """Return the values of a source by the names of a bundle, as far as it is known which are the same.

    Args:
        built: The portable graph of the bundle.
        now: What the same passes made of the source now.
        inner: The values of the source now.
    """
    # The names of outputs are those of the signature, whatever computes them.
    found = dict(_same(built, now)) | {str(value.name): str(value.name) for value in now.outputs}
    return Renamed(inner, {old: new for old, new in found.items() if new in inner.names})


def _same(built: ir.Graph, now: ir.Graph) -> Iterator[tuple[str, str]]:
    """Yield the name in ``built`` and the name in ``now`` of each value that both have."""
    earlier, later = list(map(_Step.of, built)), list(map(_Step.of, now))
    known = {step.results: step for step in earlier}
    count = 0
    for step in later:
        if (before := known.get(step.results)) is None or before.place != step.place:
            break
        yield from zip(before.results, step.results, strict=True)
        del known[step.results]
        count += 1
    for before, after in _in_order(list(known.values()), later[count:]):
        yield from zip(before.results, after.results, strict=True)


def _in_order(earlier: Sequence[_Step], later: Sequence[_Step]) -> Iterator[tuple[_Step, _Step]]:
    """Match nodes of equal content in order; between those, as many of the same operators on both sides."""
    a, b = [step.content for step in earlier], [step.content for step in later]
    for _, i, i_end, j, j_end in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        mine, theirs = earlier[i:i_end], later[j:j_end]
        if [step.place[1:4] for step in mine] == [step.place[1:4] for step in theirs]:
            yield from zip(mine, theirs, strict=True)
