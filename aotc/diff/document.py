"""What a comparison of two bundles finds."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, computed_field

Section = Literal["signature", "ops", "weights", "precision", "decisions", "producer", "verdict", "size"]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""What is compared, in the order in which it is told."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Difference(_Frozen):
    """One thing by its name; null where a bundle does not have it."""

    what: str
    a: str | None
    b: str | None


class OperatorDifference(_Frozen):
    """How often an operator occurs among the nodes of a module; the path of the root is empty."""

    module: str
    operator: str
    a: int
    b: int


class WeightDifference(_Frozen):
    """One weight, as dtype and shape; ``requantised``: another dtype, ``changed``: other values or shape."""

    name: str
    status: Literal["equal", "changed", "requantised", "removed", "added"]
    a: str | None
    b: str | None


class FileDifference(_Frozen):
    """A file whose content is not the same, with its sizes in bytes."""

    file: str
    a: int | None
    b: int | None


class BundleDiff(_Frozen):
    """Two bundles of one graph each; ``a`` and ``b`` are their digests; if these are equal nothing is listed.

    ``weights`` lists the equal ones too; those inside the graph file only where onnx is installed.
    ``rewired`` are modules with the same operators in another order, with other attributes or other inputs.
    ``changed`` are the sections that differ; of those in ``not_compared`` that is not known, because onnx is
    missing.
    """

    a: str
    b: str
    not_compared: tuple[Section, ...] = ()
    signature: tuple[Difference, ...] = ()
    ops: tuple[OperatorDifference, ...] = ()
    rewired: tuple[str, ...] = ()
    weights: tuple[WeightDifference, ...] = ()
    precision: tuple[Difference, ...] = ()
    decisions: tuple[Difference, ...] = ()
    producer: tuple[Difference, ...] = ()
    verdict: tuple[Difference, ...] = ()
    files: tuple[FileDifference, ...] = ()
    notes: tuple[str, ...] = ()

    @computed_field  # type: ignore[prop-decorator] # pydantic's own way to write a property
    @property
    def changed(self) -> tuple[Section, ...]:
        """Return the sections that differ."""
        found: dict[Section, object] = {
            "signature": self.signature,
            "ops": self.ops or self.rewired,
            "weights": [weight for weight in self.weights if weight.status != "equal"],
            "precision": self.precision,
            "decisions": self.decisions,
            "producer": self.producer,
            "verdict": self.verdict,
            "size": [file for file in self.files if file.a != file.b],
        }
        return tuple(section for section in SECTIONS if found[section])


class PartsDiff(_Frozen):
    """Two models in parts: each part that both have, and what concerns the whole."""

    a: str
    b: str
    parts: dict[str, BundleDiff] = {}
    signature: tuple[Difference, ...] = ()
    decisions: tuple[Difference, ...] = ()
    verdict: tuple[Difference, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def changed(self) -> tuple[Section, ...]:
        """Return the sections that differ, in some part or of the whole."""
        found = {section for part in self.parts.values() for section in part.changed}
        whole: dict[Section, object] = {
            "signature": self.signature,
            "decisions": self.decisions,
            "verdict": self.verdict,
        }
        return tuple(section for section in SECTIONS if section in found or whole.get(section))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def not_compared(self) -> tuple[Section, ...]:
        """Return the sections of some part about which nothing certain is known."""
        found = {section for part in self.parts.values() for section in part.not_compared}
        return tuple(section for section in SECTIONS if section in found)


AnyDiff = BundleDiff | PartsDiff
