"""The sweep that the raising passes share: each spelling is judged once, the largest right cone counts."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import onnx_ir as ir

from aotc.ir.edit import Names
from aotc.ir.scopes import describe, place
from aotc.ir.walk import graphs, is_op
from aotc.rewrite import Context, PassResult, Refusal
from aotc.rewrite.cone import Cone, cones

FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""Types that are raised: those with kernels for what they are raised to."""
Found = TypeVar("Found")


@dataclasses.dataclass(frozen=True)
class Verdict(Generic[Found]):
    """What a cone was found to be; ``reason`` says why it is not, where it only comes near."""

    found: Found
    reason: str | None = None


class Raising(ABC, Generic[Found]):
    """Replaces cones in ``model`` by what they are found to be.

    ``hallmarks`` are operators of which a graph must have one to be looked at; ``ends`` are those that a cone
    may end with, ``inside`` those that may lie in it.
    """

    hallmarks: ClassVar[frozenset[str]]
    ends: ClassVar[frozenset[str]]
    inside: ClassVar[frozenset[str]]

    def __init__(self, model: ir.Model, context: Context) -> None:
        self.oracle, self.opsets = context.oracle, model.opset_imports
        self.names = Names(model)
        self._model = model
        self._verdicts: dict[object, Verdict[Found] | None] = {}
        self._changes: list[str] = []
        self._refusals: list[Refusal] = []

    @abstractmethod
    def key(self, cone: Cone) -> object:
        """Return what cones have in common that get the same verdict; None for one that is nothing."""

    @abstractmethod
    def judge(self, cone: Cone) -> Verdict[Found] | None:
        """Return what ``cone`` is or comes near to, if it is anything."""

    @abstractmethod
    def replace(self, cone: Cone, found: Found) -> None:
        """Put an operator in the place of ``cone``."""

    def is_parameter(self, value: ir.Value, rank: int) -> bool:
        """Return whether ``value`` may be a weight of a cone whose value has ``rank`` axes."""
        return False

    def stops_at(self, value: ir.Value, rank: int) -> bool:
        """Return whether nothing behind ``value`` may belong to a cone whose value has ``rank`` axes."""
        return False

    def run(self) -> PassResult:
        """Sweep until nothing is found: what was found may be part of a larger cone."""
        count = -1
        while count < len(self._changes):
            count = len(self._changes)
            self._refusals = []
            for graph in graphs(self._model):
                nodes = list(graph)
                if any(is_op(node, *self.hallmarks) for node in nodes):
                    self._sweep(graph, nodes)
        return PassResult(tuple(self._changes), tuple(self._refusals))

    def _sweep(self, graph: ir.Graph, nodes: list[ir.Node]) -> None:
        """Visit ``nodes`` last to first, so that the largest cones are met first."""
        order = {node: index for index, node in enumerate(nodes)}
        told: set[ir.Node] = set()
        for node in reversed(nodes):
            if node.graph is graph and is_op(node, *self.ends) and node.outputs[0].dtype in FLOATS:
                self._visit(node, order, told)

    def _visit(self, end: ir.Node, order: Mapping[ir.Node, int], told: set[ir.Node]) -> None:
        shape, first = end.outputs[0].shape, None
        rank = shape.rank() if shape is not None else 0
        is_parameter = functools.partial(self.is_parameter, rank=rank)
        stops_at = functools.partial(self.stops_at, rank=rank)
        for cone in reversed(cones(end, order, self.inside, is_parameter, stops_at)):
            verdict = self._verdict(cone)
            if verdict is None:
                continue
            reason = verdict.reason or cone.used_elsewhere()
            if reason is None:
                self._changes.append(f"{place(end)}: {len(cone.nodes)} nodes -> {verdict.found}")
                self.replace(cone, verdict.found)
                return
            first = first or (str(verdict.found), reason, cone)
        if first is not None and end not in told:
            found, why, cone = first
            self._refusals.append(
                Refusal(f"not raised to {found}: {why}", describe(end), found.partition("(")[0])
            )
            told.update(cone.nodes)

    def _verdict(self, cone: Cone) -> Verdict[Found] | None:
        key = self.key(cone)
        if key is None:
            return None
        if key not in self._verdicts:
            self._verdicts[key] = self.judge(cone)
        return self._verdicts[key]
