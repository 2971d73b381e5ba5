"""The page of a report: what it shows, that it stands alone, and that no name in it becomes markup."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle import Contents, EngineEntry, FileEntry, PassEntry, Refusal
from aotc.config import Options
from aotc.parity.by_module import ModuleError
from aotc.parity.metrics import OutputFigures
from aotc.parity.verdict import Accuracy, CaseVerdict, EngineVerdict, Verdict
from aotc.report.charts import MOST_BARS
from aotc.report.command import build_command
from aotc.report.content import PartsReport, Report
from aotc.report.html import render, render_parts
from aotc.signature import Argument, Signature, TensorSpec, parse_profiles
from aotc.tree import Dict, TensorLeaf

HOSTILE = (
    "</title></text><script>alert(1)</script>\"' onload='x' <img src=http://evil>"
    "{{ 7*7 }}&lt;\x1b[31m\u202e\x00"
)


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str | None] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value for name, value in attrs if name in ("href", "src")}

    def handle_data(self, data: str) -> None:
        self.text = f"{self.text} {data}".strip()


def figures(name: str, ratio: float = 0.25, **fields: Any) -> OutputFigures:
    known = {"passed": True, "max_abs": ratio * 1e-6, "atol": 1e-6, "rtol": 0, "tolerance": "derived"}
    return OutputFigures(name=name, ratio=ratio, **{**known, **fields})


def report(name: str = "tiny", ratio: float = 0.25, outputs: int = 1, **fields: object) -> Report:
    shown = tuple(figures(f"{name}{i or ''}", ratio, passed=ratio <= 1) for i in range(outputs))
    outcome = "equal" if ratio <= 1 else "differs"
    cases = (
        CaseVerdict(label=name, sizes={name: 1}, outcome=outcome, detail=name, outputs=shown),
        CaseVerdict(label=f"bad {name}", sizes={}, outcome="both raise", detail=name),
    )
    verdict = Verdict(
        engines=(EngineVerdict(engine="model.onnx", cases=cases),),
        accuracy=Accuracy(eager=0.5, engine=0.5, limit=1e-4),
        environment={"torch": name},
        seconds={"import": 1.5, "check": 0.5},
    )
    leaf = TensorLeaf(name=name)
    spec = TensorSpec(name=name, dtype="float32", shape=("batch", 4))
    contents = Contents(
        producer={"aotc": "0"},
        name=name,
        target="ort-cpu",
        level="executed",
        signature=Signature(
            arguments=(Argument(name="x", kind="positional", tree=leaf),),
            inputs=(spec,),
            outputs=(spec,),
            result=Dict(kind="dict", entries=((name, leaf),)),
            profiles=parse_profiles([{"batch": (1, 2, 8)}], ["batch"]),
        ),
        engines=(EngineEntry(file="model.onnx", kind="portable"),),
        options={"tolerance": {name: {"atol": 1e-6, "rtol": 0.0}}},
        passes=(PassEntry(name="a-pass", changes=(name,), refusals=(Refusal(reason=name, where=name),)),),
        files={"model.onnx": FileEntry(size=2048, sha256="0" * 64)},
    )
    before, after = {name: {"Conv": 2, "Relu": 1}}, {name: {"Conv": 1, "Relu": 1}}
    known = Report(contents, verdict, before, after, notes=(name,), command=f"aotc build {name}")
    return dataclasses.replace(known, **fields)


def test_what_it_shows() -> None:
    text = " ".join(Page(render(report())).text.split())
    for shown in (
        "Verified against eager",
        "target ort-cpu, fp32, level executed",
        "0.25 worst error, of its bound",
        "3 → 2 operators, before and after passes",
        "Conv 2 → 1, Relu 1",
        "2.0 KiB",
        "accuracy; eager 0.5",
        "tiny refused at tiny: tiny",
        "batch 1 to 8 (opt 2)",
        "1 input sets: both raise",
        "aotc build tiny",
        "import 1.5 s",
        "torch tiny",
        "tiny: atol 1e-06, rtol 0.0",
    ):
        assert shown in text, shown


def test_a_failure_says_what_and_how_to_replay_it() -> None:
    text = Page(render(report(ratio=20.0, replay="aotc check tiny.py --inputs tiny.failed.npz"))).text
    assert "Differs from eager" in text
    assert "Verified" not in text
    assert "aotc check tiny.py --inputs tiny.failed.npz" in text
    assert "Nothing was published." in text


def test_an_untouched_file_is_not_called_eager() -> None:
    known = report()
    verdict = known.verdict.model_copy(update={"reference": "the untouched file"})
    text = Page(render(dataclasses.replace(known, verdict=verdict))).text
    assert "Verified against the untouched file" in text
    assert "eager" not in text


@pytest.mark.parametrize("ratio", [0.25, 20.0])
def test_no_name_becomes_markup_or_a_control_character(ratio: float) -> None:
    modules = (ModuleError(HOSTILE, HOSTILE, 1.0, 2.0),)
    page = render(report(HOSTILE, ratio=ratio, modules=modules, replay=HOSTILE))
    parsed, plain = Page(page), Page(render(report(ratio=ratio, modules=modules, replay="x")))
    assert parsed.tags == plain.tags
    assert parsed.attributes == plain.attributes
    assert not {c for c in page if unicodedata.category(c) in ("Cc", "Cf", "Cs")} - {"\n"}
    assert "{{ 7*7 }}" in parsed.text


def test_no_address_of_a_part_leaves_the_folder() -> None:
    verdicts = [report(name).verdict for name in (HOSTILE, "tiny")]
    parsed, plain = (
        Page(render_parts(PartsReport(HOSTILE, "0" * 64, {"encoder": each, "decoder": each}, None)))
        for each in verdicts
    )
    assert parsed.tags == plain.tags
    assert parsed.links == {"encoder/report.html", "decoder/report.html"}
    assert "2 parts, all verified" in parsed.text


def test_it_stands_alone() -> None:
    page = render(report(modules=(ModuleError("a", None, 1e-7, 1e-6),)))
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert not parsed.links
    assert not re.search(r"https?:|url\(|@import", page)
    assert "default-src 'none'" in page


def test_the_same_report_gives_the_same_page() -> None:
    assert render(report()) == render(report())


def test_errors_by_module_are_drawn_if_they_are_known() -> None:
    assert "Error by module" not in render(report())
    modules = (ModuleError("encoder", "net.py:3", 1e-7, 1e-6), ModuleError("", None, float("nan"), 0.0))
    page = render(report(modules=modules))
    assert "Error by module" in page
    assert "encoder (net.py:3): max abs 1.00e-07, bound 1.00e-06" in page
    assert page.count('class="failed"') == 1
    assert page.count('class="mark"') == 1
    assert "nan" not in re.sub(r">[^<]*<", "", page)


@pytest.mark.parametrize("outputs", [MOST_BARS, MOST_BARS + 5])
def test_a_picture_has_an_end(outputs: int) -> None:
    page = render(report(outputs=outputs))
    assert page.count("<rect") == MOST_BARS + len(report().verdict.seconds)
    assert ("5 further bars" in page) == (outputs > MOST_BARS)


def test_an_output_of_another_shape_is_the_longest_bar() -> None:
    known = report()
    wrong = (figures("a", 0.0, passed=False, reason="shape (2,) for (3,)"), figures("b", 0.5))
    case = CaseVerdict(label="example", sizes={}, outcome="differs", outputs=wrong)
    verdict = known.verdict.model_copy(
        update={"engines": (EngineVerdict(engine="model.onnx", cases=(case,)),)}
    )
    page = render(dataclasses.replace(known, verdict=verdict))
    assert "shape (2,) for (3,)" in page
    assert re.search(r'class="failed" x="230" y="\d+" width="620.0"', page)


@pytest.mark.parametrize(
    ("given", "options", "out", "command"),
    [
        ("model.py", {}, "dist/m", "aotc build model.py --target ort-cpu -o dist/m"),
        ("/home/me/model.py:enc", {}, "/tmp/x/m", "aotc build model.py:enc --target ort-cpu -o m"),
        (
            "/data/bert --dim seq=1:2:3 --trust-remote-code",
            {"validate": "each", "disable": ["fold-constants"], "seed": 3, "threads": 2},
            "m",
            "aotc build bert --dim seq=1:2:3 --trust-remote-code --target ort-cpu -o m "
            "--validate each --disable fold-constants --seed 3 --threads 2",
        ),
    ],
)
def test_the_command_names_no_folder_of_this_machine(
    given: str, options: dict, out: str, command: str
) -> None:
    assert build_command(given, Options.model_validate(options), Path(out)) == command
