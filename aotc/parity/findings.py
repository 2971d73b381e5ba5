"""What ``aotc check --bisect`` says: which value is the first wrong one, or which stage made it so."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from aotc.parity.metrics import OutputFigures

_SHOWN = 6


class Finding(BaseModel):
    """The first value that differs, in the words of the PyTorch module.

    ``graph`` is what was searched: an engine file, the graph after a stage, or ``torch.export`` where its
    program is wrong already. ``figures`` is None where the graph does not run that far; ``detail`` says why.
    ``merged`` are the modules whose own results are not known in the graph, such as a convolution before its
    normalisation; of a file that says nothing of modules, the nodes. ``agreeing`` counts the values that
    cross the graph just before: all agree, the worst of them at ``agreeing_ratio`` of its bound. ``saved`` is
    the folder of the reproduction.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["value"] = "value"
    graph: str
    value: str
    module: str
    merged: tuple[str, ...] = ()
    op: str
    line: str
    figures: OutputFigures | None
    detail: str | None = None
    agreeing: int = 0
    agreeing_ratio: float = 0.0
    probes: int = 0
    saved: str | None = None

    def __str__(self) -> str:
        """Return ``encoder.3: aten.softmax: max abs 0.31, cosine 0.98; all before agrees; file.py:321``."""
        place, *merged = (path or "the model itself" for path in (self.module, *self.merged))
        if merged:
            more = f" and {len(merged) - _SHOWN} more" if len(merged) > _SHOWN else ""
            place += f" (with {', '.join(merged[:_SHOWN])}{more})"
        parts = [f"{place}: {self.op}: {_measured(self.figures, self.detail)}"]
        if self.agreeing:
            parts.append(f"all before agrees ({self.agreeing_ratio:.2g} of the bound)")
        elif self.probes:
            parts.append("nothing is computed before it")
        return "; ".join([*parts, *([self.line] if self.line else [])])


def _measured(figures: OutputFigures | None, detail: str | None) -> str:
    if figures is None or not figures.max_abs:
        return detail or (figures.reason if figures and figures.reason else "differs")
    cosine = "" if figures.cosine is None else f", cosine {figures.cosine:.6f}"
    return f"max abs {figures.max_abs:.3g}{cosine}"


class PassFinding(BaseModel):
    """The first stage after which the graph does not compute what eager computes.

    ``stage`` is ``import``, a pass, or ONNX Runtime's optimiser of one of the engine files; ``first`` is the
    first wrong value of the graph that the stage left.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["pass"] = "pass"
    stage: str
    detail: str
    first: Finding | None

    @property
    def saved(self) -> str | None:
        """Return the folder of the reproduction."""
        return self.first.saved if self.first is not None else None

    def __str__(self) -> str:
        """Return ``fold-batch-norm: the output 'logits' differs: ...`` and where its first wrong value is."""
        text = f"{self.stage}: {self.detail}; all stages before agree"
        return text if self.first is None else f"{text}\n  first: {self.first}"


AnyFinding = Finding | PassFinding
