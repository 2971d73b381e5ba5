"""GitHub Actions: annotations that no name can break, and a summary in which no name is markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from aotc.errors import RefusedError
from aotc.parity.failure import ParityError
from aotc.parity.verdict import Verdict
from aotc.report.github import annotation, in_repository, place_in, summary
from aotc.text import plain


def html(markdown: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)


def test_an_annotation_at_a_line() -> None:
    assert annotation("error", "aotc build: export", "no: 5%,\nreally", ("net/model.py", 12)) == (
        "::error file=net/model.py,line=12,title=aotc build%3A export::no: 5%25,%0Areally"
    )
    assert annotation("warning", "aotc build", "a note") == "::warning title=aotc build::a note"


def test_a_hostile_name_stays_inside_its_annotation(hostile: Verdict) -> None:
    name = hostile.engines[0].engine
    line = annotation("error", name, name, (name, 1))
    assert len(line.splitlines()) == 1
    match = re.fullmatch(r"::error file=([^,:]*),line=1,title=([^,:]*)::(.*)", line)
    assert match, line
    unescaped = match[3].replace("%0A", "\n").replace("%25", "%")
    assert unescaped == plain(name, keep="\n")


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("model.py:12, in forward", ("model.py", 12)),
        ("inputs saved to a.npz; layers.3 (net/modeling.py:88), Conv 'c'", ("net/modeling.py", 88)),
        ("model.onnx", None),
        (None, None),
    ],
)
def test_the_place_in_a_message(where: str | None, place: tuple[str, int] | None) -> None:
    assert place_in(where) == place


def test_paths_are_from_the_root_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repo" / "net").mkdir(parents=True)
    source = tmp_path / "repo" / "net" / "model.py"
    source.write_text("")
    root = tmp_path / "repo"
    monkeypatch.chdir(root / "net")
    assert in_repository("model.py", (), root) == "net/model.py"
    monkeypatch.chdir(root)
    assert in_repository("model.py", ("build", "net/model.py"), root) == "net/model.py"
    assert in_repository("model.py", ("build", "net/model.py:encoder"), root) == "net/model.py"
    assert in_repository("modeling.py", ("build", "net/model.py"), root) == "modeling.py"
    assert in_repository(str(source), (), tmp_path / "elsewhere") == str(source)


def test_the_summary_has_figures_notes_and_the_error(parts) -> None:
    error = ParityError(parts, where="model.onnx", hint="aotc check ...")
    text = summary("aotc check", parts, ["a note"], error)
    assert text.startswith("### aotc check: failed\n\n| output | cases |")
    page = html(text)
    for cell in ("encoder/hidden", "decoder/logits", "2.00e-06", "<strong>FAIL</strong>"):
        assert f">{cell}<" in page, page
    assert "<li>a note</li>" in page
    assert f"<code>{error.render()}\n</code>" in page.replace("&quot;", '"')


def test_nothing_in_a_summary_is_markup_that_comes_from_a_name(hostile: Verdict) -> None:
    name = hostile.engines[0].engine
    error = RefusedError(f"```\n{name}\n````\n<script>", where=name)
    page = html(summary(name, hostile, [name], error))
    tags = set(re.findall(r"<(\w+)", page))
    assert tags <= {"h3", "table", "thead", "tbody", "tr", "th", "td", "strong", "ul", "li", "pre", "code"}
    shown = page.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").replace("&quot;", '"')
    assert f"<td>{plain(name)}</td>" in shown
    assert f"<li>{plain(name)}</li>" in shown
    assert page.count("<pre>") == 1


def test_a_very_long_table_is_cut_and_says_so(good: Verdict) -> None:
    (engine,) = good.engines
    first = engine.cases[0].outputs[0]
    many = tuple(first.model_copy(update={"name": f"o{i}"}) for i in range(250))
    case = engine.cases[0].model_copy(update={"outputs": many})
    long = good.model_copy(update={"engines": (engine.model_copy(update={"cases": (case,)}),)})
    text = summary("aotc build", long)
    assert len(re.findall(r"\n\| o\d", text)) == 200
    assert "50 more outputs" in text
