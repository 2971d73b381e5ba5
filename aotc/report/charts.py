"""Bars on a scale: what the template draws as SVG."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from aotc.parity.by_module import ModuleError
from aotc.parity.verdict import EngineVerdict

MOST_BARS = 60
_SMALLEST, _LARGEST = 1e-12, 1e12
"""Ends of a scale: beyond them a bar says no more than "almost nothing" or "far too much"."""
_LABEL = 34


@dataclasses.dataclass(frozen=True)
class Bar:
    """One row of a picture; ``end`` and ``mark`` are shares of its width, ``mark`` that of its bound."""

    label: str
    title: str
    text: str
    end: float
    mark: float | None
    passed: bool


@dataclasses.dataclass(frozen=True)
class Chart:
    """Bars in groups, (share, text) of the ticks of their common scale, and how many bars were left out."""

    groups: tuple[tuple[str, tuple[Bar, ...]], ...]
    ticks: tuple[tuple[float, str], ...]
    left_out: int = 0


@dataclasses.dataclass(frozen=True)
class _Scale:
    """A logarithmic scale over whole decades."""

    low: int
    high: int

    @classmethod
    def over(cls, values: Sequence[float]) -> _Scale:
        """Return the scale that holds the positive ones of ``values``."""
        known = [min(max(v, _SMALLEST), _LARGEST) for v in values if v > 0]
        low = math.floor(math.log10(min(known, default=0.1)))
        return cls(low, max(low + 1, math.ceil(math.log10(max(known, default=1.0)))))

    def share(self, value: float) -> float:
        """Return where ``value`` is, from 0 to 1."""
        if math.isnan(value):
            return 1.0
        if value <= 0:
            return 0.0
        decades = math.log10(min(max(value, _SMALLEST), _LARGEST)) - self.low
        return round(min(max(decades / (self.high - self.low), 0.0), 1.0), 4)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return at most seven powers of ten."""
        step = -(-(self.high - self.low) // 6)
        return tuple(
            (self.share(10.0**e), f"{10.0**e:g}" if abs(e) < 4 else f"1e{e}")
            for e in range(self.low, self.high + 1, step)
        )


def error_chart(engines: Sequence[EngineVerdict]) -> Chart | None:
    """Return error over bound of every output and case, the worst engine file of each; None without any.

    Where these are too many, only the worst case of each output is shown, and of too many outputs the worst.
    """
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for engine in engines:
        for case in engine.cases:
            for figures in case.outputs:
                text = figures.reason or f"max abs {figures.max_abs:.2e}, bound {figures.bound}"
                entry = (figures.severity, f"{figures.name}, {case.label} ({engine.engine}): {text}")
                cases = found.setdefault(figures.name, {})
                cases[case.label] = max(cases.get(case.label, entry), entry)
    if not found:
        return None
    scale = _Scale.over([0.01, 1.0, *(ratio for cases in found.values() for ratio, _ in cases.values())])
    total = sum(map(len, found.values()))
    if total <= MOST_BARS:
        groups = [
            (name, [_ratio_bar(label, *entry, scale) for label, entry in cases.items()])
            for name, cases in found.items()
        ]
        return Chart(tuple((name, tuple(bars)) for name, bars in groups), scale.ticks())
    worst = {name: max(cases.values()) for name, cases in found.items()}
    shown = sorted(worst, key=lambda name: -worst[name][0])[:MOST_BARS]
    bars = tuple(_ratio_bar(name, *worst[name], scale) for name in found if name in shown)
    return Chart((("", bars),), scale.ticks(), total - len(bars))


def _ratio_bar(label: str, ratio: float, title: str, scale: _Scale) -> Bar:
    text = "exact" if ratio == 0 else f"{ratio:.2g}" if ratio < _LARGEST else "differs"
    return Bar(shortened(label), title, text, scale.share(ratio), scale.share(1.0), ratio <= 1)


def module_chart(modules: Sequence[ModuleError]) -> Chart | None:
    """Return the error of each module in the order given, each with its bound; None without any."""
    if not modules:
        return None
    shown = modules
    if len(modules) > MOST_BARS:
        worst = sorted(modules, key=_over, reverse=True)[:MOST_BARS]
        shown = [module for module in modules if module in worst]
    scale = _Scale.over([value for module in shown for value in (module.max_abs, module.bound)])
    bars = tuple(_module_bar(module, scale) for module in shown)
    return Chart((("", bars),), scale.ticks(), len(modules) - len(bars))


def _over(module: ModuleError) -> float:
    if module.max_abs <= module.bound:
        return module.max_abs / module.bound if module.bound else 0.0
    return module.max_abs / module.bound if module.bound else math.inf


def _module_bar(module: ModuleError, scale: _Scale) -> Bar:
    name = module.module or "(root)"
    title = f"{name} ({module.where})" if module.where else name
    return Bar(
        shortened(name),
        f"{title}: max abs {module.max_abs:.2e}, bound {module.bound:.2e}",
        f"{module.max_abs:.1e}",
        scale.share(module.max_abs),
        scale.share(module.bound) if module.bound else None,
        module.max_abs <= module.bound,
    )


def seconds_chart(seconds: dict[str, float]) -> Chart:
    """Return the seconds of each stage on a linear scale."""
    longest = max(seconds.values(), default=0.0) or 1.0
    bars = [
        Bar(stage, stage, f"{took:.1f} s", round(took / longest, 4), None, True)
        for stage, took in seconds.items()
    ]
    return Chart((("", tuple(bars)),), ())


def shortened(text: str, most: int = _LABEL) -> str:
    """Return ``text``, or its beginning and its end in ``most`` characters."""
    if len(text) <= most:
        return text
    end = most // 2
    return text[: most - end - 1] + "…" + text[-end:]
