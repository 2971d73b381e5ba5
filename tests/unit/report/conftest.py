"""A verdict whose names are hostile, and one that passed."""

from __future__ import annotations

import pytest

from aotc.parity.metrics import OutputFigures
from aotc.parity.verdict import Accuracy, CaseVerdict, EngineVerdict, PartsVerdict, Verdict

HOSTILE = (
    "a\x00\x1b[31m\r\n::error::owned\n##[error]x\x7f\u202e\ufffe\ud800]]><b>&amp;|`*_[x](http://y) $z$ %0A,:é"
)
"""What a model may be called: control characters, commands of a runner, markup, half a character."""


def figures(name: str, *, passed: bool = True, **fields) -> OutputFigures:
    known = {"atol": 1e-6, "rtol": 0.0, "tolerance": "derived", "dtype": "float32", "shape": (2, 3)}
    if not passed:
        known |= {"max_abs": 2e-6, "ratio": 2.0, "reason": "max abs 2e-06 is 2 times the bound"}
    return OutputFigures(name=name, passed=passed, **{**known, **fields})


def case(label: str, outcome: str, *outputs: OutputFigures, detail: str | None = None) -> CaseVerdict:
    return CaseVerdict(label=label, sizes={}, outcome=outcome, outputs=outputs, detail=detail)


def verdict(*cases: CaseVerdict, engine: str = "model.onnx", **fields) -> Verdict:
    engines = (EngineVerdict(engine=engine, cases=cases),)
    return Verdict(engines=engines, environment={"numpy": "2"}, **fields)


@pytest.fixture
def good() -> Verdict:
    return verdict(
        case("example", "equal", figures("logits"), figures("hidden", max_abs=1e-7, ratio=0.1)),
        case("x holds -1", "both raise", detail="index out of range"),
        case("extreme", "not compared", detail="eager raises"),
        case("batch=0", "refused size", figures("logits", passed=False), detail="an empty axis"),
        accuracy=Accuracy(eager=0.5, engine=0.5, limit=1e-4),
    )


@pytest.fixture
def hostile() -> Verdict:
    return verdict(
        case(HOSTILE, "differs", figures(HOSTILE, passed=False, reason=HOSTILE), detail=HOSTILE),
        case("other", "engine raises", detail=HOSTILE),
        engine=HOSTILE,
    )


@pytest.fixture
def parts(good: Verdict) -> PartsVerdict:
    bad = verdict(case("example", "differs", figures("logits", passed=False), detail="logits: 2 times"))
    return PartsVerdict(parts={"encoder": good, "decoder": bad})
