"""JUnit XML: a test case for each comparison, red if and only if the command is, whatever names it holds."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from junitparser import JUnitXml

from aotc.errors import RefusedError
from aotc.parity.failure import ParityError
from aotc.parity.verdict import AnyVerdict, Verdict
from aotc.report.junit import write_junit


def written(path: Path, verdict: AnyVerdict | None, error: Exception | None = None) -> ElementTree.Element:
    write_junit(path / "new" / "report.xml", "aotc build", verdict, error)
    return ElementTree.parse(path / "new" / "report.xml").getroot()


def properties(element: ElementTree.Element) -> dict[str, str]:
    return {p.get("name"): p.get("value") for p in element.findall("properties/property")}


def test_one_test_case_for_each_comparison(good: Verdict, tmp_path: Path) -> None:
    root = written(tmp_path, good)
    found = {case.get("name"): case for case in root.iter("testcase")}
    assert list(found) == [
        "logits on example",
        "hidden on example",
        "x holds -1",
        "extreme",
        "batch=0",
        "accuracy()",
    ]
    skipped = {name for name, case in found.items() if case.find("skipped") is not None}
    assert skipped == {"extreme", "batch=0"}
    assert (root.get("tests"), root.get("skipped"), root.get("failures"), root.get("errors")) == tuple("6200")
    assert properties(found["hidden on example"]) == {
        "max_abs": "1e-07",
        "max_rel": "0.0",
        "ratio": "0.1",
        "atol": "1e-06",
        "rtol": "0.0",
        "tolerance": "derived",
        "excused": "0",
        "dtype": "float32",
        "shape": "[2, 3]",
        "bound": "1.00e-06",
        "level": "executed",
    }
    assert properties(root.find("testsuite")) == {"numpy": "2"}
    assert {case.get("classname") for case in found.values()} == {"model.onnx", "accuracy"}


def test_failures_have_the_whole_error(parts, tmp_path: Path) -> None:
    error = ParityError(parts, where="inputs saved to x.npz", hint="aotc check model.py --inputs x.npz")
    root = written(tmp_path, parts, error)
    (failed,) = root.iter("failure")
    assert failed.get("message") == "logits: max abs 2e-06 is 2 times the bound"
    assert failed.text == f"{failed.get('message')}\n\n{error.render()}"
    assert [suite.get("name") for suite in root] == [
        f"aotc build: {part}/model.onnx" for part in ("encoder", "decoder")
    ]
    assert (root.get("failures"), root.get("errors")) == ("1", "0")


def test_an_error_without_a_verdict_is_a_test_case(tmp_path: Path) -> None:
    error = RefusedError("no such op", where="net.py:3", hint="write it otherwise")
    root = written(tmp_path, None, error)
    (case,) = root.iter("testcase")
    assert (case.get("classname"), case.get("name")) == ("aotc", "aotc build")
    assert case.find("error").get("type") == "refused"
    assert case.find("error").text == error.render()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")


def test_a_verdict_that_failed_without_a_failing_comparison_is_red(good: Verdict, tmp_path: Path) -> None:
    (engine,) = good.engines
    nothing = good.model_copy(update={"engines": (engine.model_copy(update={"cases": engine.cases[2:3]}),)})
    assert not nothing.passed
    root = written(tmp_path, nothing, ParityError(nothing, where=None, hint=None))
    (failed,) = root.iter("failure")
    assert failed.get("message") == "no case could be compared: eager refused every input"


def test_the_metric_alone_can_fail(good: Verdict, tmp_path: Path) -> None:
    metric = good.accuracy.model_copy(update={"engine": float("nan")})
    bad = good.model_copy(update={"accuracy": metric})
    root = written(tmp_path, bad, ParityError(bad, where=None, hint=None))
    (failed,) = root.iter("failure")
    assert failed.get("message") == "nan on the engine, 0.5 on eager; 0.0001 is allowed"


def test_hostile_names_leave_valid_xml(hostile: Verdict, tmp_path: Path) -> None:
    error = ParityError(hostile, where=None, hint=None)
    root = written(tmp_path, hostile, error)
    assert root.get("failures") == "2"
    texts = [value for e in root.iter() for value in (*e.attrib.values(), e.text or "")]
    assert any("<b>&amp;|`*_[x]" in text for text in texts), "printable characters stay as they are"
    assert {c for text in texts for c in text if not c.isprintable()} == {"\n"}
    again = JUnitXml.fromfile(str(tmp_path / "new" / "report.xml"))
    assert sum(suite.failures for suite in again) == 2


def test_figures_of_an_older_bundle_lack_what_it_did_not_write(good: Verdict, tmp_path: Path) -> None:
    text = good.model_dump_json().replace('"dtype":"float32","shape":[2,3]', '"excused":0')
    old = Verdict.model_validate_json(text)
    assert old != good
    names = {name for case in written(tmp_path, old).iter("testcase") for name in properties(case)}
    assert "max_abs" in names
    assert names.isdisjoint({"dtype", "shape"})
