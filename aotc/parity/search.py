"""The search for the first wrong value of a graph: by halves, over cuts through it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from aotc.errors import AotcError
from aotc.ir.prefix import Cut
from aotc.parity.findings import Finding
from aotc.parity.inner_values import InnerValues
from aotc.parity.metrics import OutputFigures, compare
from aotc.parity.tolerance import Tolerance, derive, unstable

Array = np.ndarray[Any, Any]
Run = Callable[[Sequence[str]], Mapping[str, Array]]
"""Runs a graph as far as some of its values and returns them; refuses with an ``AotcError``."""


@dataclasses.dataclass(frozen=True)
class _Probe:
    """What crosses one cut, compared; ``detail`` says why the graph does not run that far."""

    figures: tuple[OutputFigures, ...]
    detail: str | None = None

    @property
    def wrong(self) -> tuple[OutputFigures, ...]:
        return tuple(figures for figures in self.figures if not figures.passed)

    @property
    def agrees(self) -> bool:
        return self.detail is None and not self.wrong


@dataclasses.dataclass(frozen=True)
class Difference:
    """Where a graph goes wrong: all that crosses ``before`` agrees, ``value`` behind it does not."""

    before: Cut
    value: str
    figures: OutputFigures | None
    detail: str | None
    ratio_before: float
    probes: int

    def finding(self, graph: str, inner: InnerValues) -> Finding:
        """Return what is said about it; ``inner`` knows where values come from."""
        origin = inner.origin(self.value)
        return Finding(
            graph=graph,
            value=self.value,
            module=origin.module,
            merged=tuple(
                path for path in inner.modules(self.value, self.before.values) if path != origin.module
            ),
            op=origin.op,
            line=origin.line,
            figures=self.figures,
            detail=self.detail,
            agreeing=len(self.before.values),
            agreeing_ratio=self.ratio_before,
            probes=self.probes,
        )


def first_difference(
    cuts: Sequence[Cut],
    run: Run,
    reference: InnerValues,
    feeds: Mapping[str, Array],
    bounds: Mapping[str, Tolerance],
    on_probe: Callable[[str], None] = lambda _: None,
) -> Difference | None:
    """Find neighbouring cuts, the values across the first of which agree and across the second do not.

    Nothing is assumed of the cuts between: an error may vanish again, as behind a ReLU. What is found is
    always a place where right values go in and a wrong one comes out.

    Args:
        cuts: Front to back; what crosses the last are the outputs.
        run: Runs the graph on ``feeds`` as far as a cut.
        reference: Says what is right.
        feeds: The inputs.
        bounds: Bounds of the outputs by name; the others are derived from the reference's float64 run.
        on_probe: Told of each run.

    Returns:
        None if the outputs agree.
    """
    probes: dict[int, _Probe] = {}

    def probe(index: int) -> _Probe:
        on_probe(f"value {cuts[index].position + 1} of {cuts[-1].position + 1}")
        probes[index] = _compare_cut(cuts[index], run, reference, feeds, bounds)
        return probes[index]

    low, high = -1, len(cuts) - 1
    if high < 0 or probe(high).agrees:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if probe(middle).agrees:
            low = middle
        else:
            high = middle
    before = cuts[low] if low >= 0 else Cut(-1, ())
    ratio = max((figures.ratio for figures in probes[low].figures), default=0.0) if low >= 0 else 0.0
    wrong = {figures.name: figures for figures in probes[high].wrong}
    # A value that crosses both cuts agreed at the first; where only such a one is left, it was at its bound.
    made = [name for name in cuts[high].values if name in wrong and name not in before.values] or list(wrong)
    name = made[0] if made else cuts[high].values[-1]
    return Difference(before, name, wrong.get(name), probes[high].detail, ratio, probes=len(probes))


def _compare_cut(
    cut: Cut,
    run: Run,
    reference: InnerValues,
    feeds: Mapping[str, Array],
    bounds: Mapping[str, Tolerance],
) -> _Probe:
    try:
        got = run(cut.values)
    except AotcError as error:
        return _Probe((), error.message)
    right = reference.run(feeds, cut.values)
    wide = reference.run_float64(feeds, cut.values) or {}
    return _Probe(
        tuple(
            compare(
                name,
                np.asarray(got[name]),
                right[name],
                bounds.get(name) or derive(right[name], wide.get(name)),
                unstable(right[name], wide.get(name)),
            )
            for name in cut.values
        )
    )
