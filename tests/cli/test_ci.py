"""``--junit`` and ``--github``: what every command leaves for CI, whatever its exit code."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commandline import COMPILER, aotc, argv
from parts_model import PARTS

from aotc.cli.output import harmless

WRONG = (("self.second(", "1.01 * self.second("), ("def accuracy", "def _"))
HOSTILE = "::error::owned ##[error]owned\x1b[0m\x00"


def commands(text: str) -> list[str]:
    """Return the lines that a runner of GitHub takes for commands."""
    return [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line]


def cases(path: str = "r.xml") -> dict[str, ElementTree.Element]:
    return {case.get("name"): case for case in ElementTree.parse(path).iter("testcase")}


@pytest.fixture
def step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a step's summary, which has text already."""
    path = folder / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    return path


def test_a_verdict_that_passed(cli, step: Path) -> None:
    done = cli("check", "bundle", "model.py", "--junit", "new/r.xml", "--github", "--json")
    assert done.code == 0, done.err
    verdict = done.document("check")["verdict"]
    compared = sum(len(case["outputs"]) for engine in verdict["engines"] for case in engine["cases"])
    found = cases("new/r.xml")
    assert len(found) == compared + 1
    assert "accuracy()" in found
    assert not [case for case in found.values() if case.find("failure") is not None]
    assert step.read_text().startswith("before\n### aotc check bundle model\\.py: passed\n")
    assert commands(done.out + done.err) == []


def test_the_figures_are_those_of_the_document(cli, folder: Path) -> None:
    done = cli("check", "bundle", "--junit", "r.xml", "--json")
    engine = done.document("check")["verdict"]["engines"][0]
    for case in engine["cases"]:
        (figures,) = case["outputs"]
        found = cases()[f"{figures['name']} on {case['label']}"]
        listed = {p.get("name"): p.get("value") for p in found.iter("property")}
        assert found.get("classname") == engine["engine"]
        for name in ("max_abs", "atol", "ratio", "dtype", "shape"):
            assert listed[name] == str(figures[name])
        assert listed["level"] == "executed"


def test_a_negative_verdict(cli, step: Path, source) -> None:
    changed = source(*WRONG)
    done = cli("check", "bundle", changed, "--junit", "r.xml", "--github")
    assert done.code == 1
    failures = [case.find("failure") for case in cases().values()]
    assert all(
        failure is not None and done.error.partition("\n::")[0] in failure.text for failure in failures
    )
    (line,) = commands(done.err)
    assert line.startswith("::error title=aotc check bundle variant.py%3A parity::error[parity]: ")
    text = step.read_text()
    assert "| **FAIL** |" in text
    assert "error[parity]: " in text


@pytest.mark.parametrize(
    ("args", "code", "name"),
    [
        (["build", "nix.py", "-o", "new"], 2, "source"),
        (["build", "model.py"], 2, "usage"),
        (["check", "nix"], 2, "usage"),
        (["check", "bundle", "--threads", "0"], 2, "usage"),
        (["build", "refused.py", "-o", "new"], 3, "data-dependent"),
        (["check", "damaged"], 4, "integrity"),
    ],
)
def test_whatever_goes_wrong_leaves_a_file(cli, step: Path, source, args, code: int, name: str) -> None:
    source(("return {", "assert x.sum() > 0 or x.max() > 0\n        return {"), name="refused.py")
    damaged = step.parent / "damaged"
    (step.parent / "bundle").rename(damaged)
    (damaged / "weights").write_bytes(b"?")
    (step.parent / "bundle").mkdir()
    done = cli(*args, "--junit", "r.xml", "--github")
    assert done.code == code, done.err
    (case,) = cases().values()
    assert case.find("error").get("type") == name
    assert case.find("error").text == done.error.partition("\n::")[0]
    assert f"error[{name}]: " in step.read_text()
    assert len(commands(done.err)) == 1


def test_an_error_is_annotated_at_its_line(cli, step: Path, source) -> None:
    done = cli(
        "build",
        source(("return {", "assert x.sum() > 0 or x.max() > 0\n        return {")),
        "-o",
        "new",
        "--github",
    )
    (line,) = commands(done.err)
    folder = step.parent.name
    number = next(
        n for n, text in enumerate(Path("variant.py").read_text().splitlines(), 1) if "assert x" in text
    )
    assert line.startswith(
        f"::error file={folder}/variant.py,line={number},title=aotc build variant.py%3A data-dependent::"
    )


def test_without_a_summary_file_there_are_annotations_alone(cli, folder: Path, source, monkeypatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    done = cli("check", "nix", "--github")
    assert len(commands(done.err)) == 1
    assert commands(done.out) == []


def test_notes_are_warnings(cli, step: Path, source) -> None:
    done = cli("build", source(("profiles = ", "_ = ")), "-o", "new", "--github")
    assert done.code == 0, done.err
    notes = re.findall("^note: (.*)$", done.out, re.MULTILINE)
    assert [
        f"::warning title=aotc build variant.py::{note.replace('%', '%25')}" for note in notes
    ] == commands(done.err)


def test_parts_are_named(cli, step: Path) -> None:
    Path("parts.py").write_text(PARTS)
    done = cli("build", "parts.py", "-o", "parts", "--junit", "r.xml", "--github")
    assert done.code == 0, done.err
    suites = {suite.get("name") for suite in ElementTree.parse("r.xml").iter("testsuite")}
    wanted = ("encoder/model.onnx", "decoder/model.onnx", "accuracy")
    assert {f"aotc build parts.py: {name}" for name in wanted} <= suites
    assert r"| decoder\/logits | " in step.read_text()


def test_a_bug_of_ours_leaves_a_file(cli, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr("aotc.parts.check_golden", lambda *_: 1 / 0)
    done = cli("check", "bundle", "--junit", "r.xml")
    assert done.code == 70
    assert cases()["aotc check bundle"].find("error").get("type") == "internal"


def test_a_file_that_cannot_be_written_is_reported(cli, folder: Path, source) -> None:
    (folder / "file").write_text("")
    done = cli("check", "bundle", "--junit", "file/r.xml")
    assert done.code == 74
    assert done.error.startswith("error[storage]: ")
    assert done.err.count("error[") == 1
    done = cli("check", "bundle", source(*WRONG), "--junit", "file/r.xml")
    assert done.code == 1, "the verdict is what ended the command"
    assert [text.partition("]")[0] for text in done.err.split("error[")[1:]] == ["parity", "storage"]


def test_an_interrupt_leaves_a_file(folder: Path) -> None:
    text = (folder / "model.py").read_text()
    (folder / "slow.py").write_text(f"print('here', flush=True)\nimport time\ntime.sleep(60)\n{text}")
    command = argv("build", "slow.py", "-o", "new", "--junit", "r.xml")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 143
    assert cases()["aotc build slow.py"].find("error").get("type") == "interrupted"


def test_names_of_a_model_give_no_commands(cli, folder: Path, source, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    name = source(('"logits":', f"{(HOSTILE + ' ' * 90 + HOSTILE)!r}:"), ("def accuracy", "def _"))
    for args in (
        ["build", name, "-o", "new", "--junit", "r.xml", "--github"],
        ["inspect", "new"],
        ["inspect", "new", "--json"],
        ["run", "new", "--random"],
        ["check", "new", "--junit", "r.xml"],
    ):
        done = cli(*args)
        assert done.code == 0, done.err
        assert "owned" in done.out
        assert [
            line for line in commands(done.out + done.err) if not line.startswith("::warning title=")
        ] == []
    assert len(cases()) >= 1
    (output,) = cli("inspect", "new", "--json").document("inspect")["signature"]["outputs"]
    assert HOSTILE in output["name"], "a document has the names as they are"


@pytest.mark.parametrize("text", ["::a::b", ":::a", "  ::x", "x ##[error]y", "###[x", "a::b ::c"])
def test_no_text_is_a_command(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert harmless(text) == text
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::" not in harmless(text)
    assert "##[" not in harmless(text)
    assert harmless(text).replace(" ", "") == text.replace(" ", "")


def test_needs_nothing_of_the_compiler(folder: Path) -> None:
    done = aotc("check", "bundle", "--junit", "r.xml", "--github", cwd=folder, hidden=COMPILER)
    assert done.returncode == 0, done.stderr
    assert len(cases(str(folder / "r.xml"))) >= 1
