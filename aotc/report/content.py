"""What a report tells."""

from __future__ import annotations

import dataclasses

from aotc.bundle import Contents
from aotc.ir.operators import Counts
from aotc.parity.by_module import ModuleError
from aotc.parity.verdict import Accuracy, Verdict


@dataclasses.dataclass(frozen=True)
class Report:
    """One graph: the bundle, or what would have been one, and the verdict.

    Args:
        contents: The bundle's description; the draft of it if nothing was published.
        verdict: All figures.
        before: Operators by module as imported.
        after: The same in the portable engine file.
        notes: What the build has to say besides.
        command: What builds it again; None if the source is no file.
        replay: What runs the worst inputs of a failed gate again.
        modules: Errors by module, if they were measured.
    """

    contents: Contents
    verdict: Verdict
    before: Counts
    after: Counts
    notes: tuple[str, ...]
    command: str | None
    replay: str | None = None
    modules: tuple[ModuleError, ...] = ()


@dataclasses.dataclass(frozen=True)
class PartsReport:
    """A model in parts: the report of each part, by its address, and the metric of them together."""

    name: str
    digest: str
    parts: dict[str, Verdict]
    accuracy: Accuracy | None
