"""The pass contract: graph in, graph out, with what changed and what was refused."""

from __future__ import annotations

import dataclasses
import enum
import re
from abc import ABC, abstractmethod
from typing import ClassVar

import onnx_ir as ir

from aotc.oracle import Oracle


class Relation(enum.Enum):
    """How the graph after a pass relates to the graph before it; each has its own check."""

    EQUAL = "equal"
    WITHIN = "within"
    """The same function within a budget: casting, quantising."""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A place where a pass did not act, and why. A value, tested like a result.

    ``operator`` is the standard operator that the place would have become, empty if none.
    """

    reason: str
    where: str
    operator: str = ""


@dataclasses.dataclass(frozen=True)
class PassResult:
    """What a pass did.

    ``modified`` is true exactly if the graph's text changed; a second run of the same pass on the result
    returns False. ``changes`` has one line for each rewrite, for ``aotc inspect``.
    """

    changes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def modified(self) -> bool:
        """Return whether the graph changed."""
        return bool(self.changes)


@dataclasses.dataclass(frozen=True)
class Context:
    """What the manager hands to a pass."""

    oracle: Oracle


@dataclasses.dataclass(frozen=True)
class Pass(ABC):
    """Base of all passes: a frozen dataclass whose fields are its only options.

    A pass edits ``model`` in place and runs to its own fixed point. It never looks at names to decide what a
    node means, keeps the names of graph inputs and outputs, and gives every node it makes the metadata of the
    nodes it replaces (``aotc.ir.scopes.inherit``). Its docstring has the sections *Rewrites*, *Requires*,
    *Refuses when* and *Numerics*.
    """

    relation: ClassVar[Relation] = Relation.EQUAL

    @classmethod
    def name(cls) -> str:
        """Return the kebab-case name: ``FoldBatchNorm`` is ``fold-batch-norm``."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    def __str__(self) -> str:
        options = ",".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{self.name()}{{{options}}}" if options else self.name()

    @abstractmethod
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place and say what changed and what was refused."""
