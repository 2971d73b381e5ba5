"""The pytest plugin, in a project of a user: outcomes, texts, figures, and what it costs the others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commandline import BLOCK

EXAMPLE = Path(__file__).resolve().parents[1] / "example_project"
LOADED = """
import sys
import pytest
before = set(sys.modules)
import aotc.pytest_plugin
print(*sorted(n for n in set(sys.modules) - before if n.partition(".")[0] not in sys.stdlib_module_names))
"""
TESTS = """
import sys
import numpy as np
import pytest


class Net:
    pass


def test_skipped(aotc_parity):
    aotc_parity(Net(), (1,))
    raise AssertionError("not reached")


@pytest.mark.aotc_target("ort-cpu", "tensorrt")
def test_each_target(aotc_target, aotc_parity):
    assert callable(aotc_parity)


@pytest.mark.aotc_target("tensorrt")
def test_a_mark_without_the_fixture():
    pass


def test_the_default(aotc_target):
    assert aotc_target == "ort-cpu"
"""
HOSTILE = """
import torch
from torch import nn

NAME = "a\\x1b[31m\\x00]]>&b"


class Net(nn.Module):
    def forward(self, x):
        return {NAME: torch.softmax(x @ x.T, -1)}


def test_it(aotc_parity):
    x = torch.randn(9, 33, generator=torch.Generator().manual_seed(0))
    aotc_parity(Net().eval(), (x,), tolerance={NAME: {"atol": 0.0}})
"""


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project without a model; markers are strict."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -rs --strict-markers\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, ElementTree.Element]]:
    """Run the tests of the example project; return what pytest printed and its JUnit by test."""
    folder = tmp_path_factory.mktemp("user") / "shop"
    shutil.copytree(EXAMPLE, folder)
    done = run(folder, "--junitxml=junit.xml", "--show-capture=no", "-W", "error::pytest.PytestWarning")
    assert done.returncode == 1, done.stdout + done.stderr
    tree = ElementTree.parse(folder / "junit.xml")
    return done.stdout, {case.get("name"): case for case in tree.iter("testcase")}


def raised(case: ElementTree.Element) -> str:
    """Return the text of the exception, as pytest shows it."""
    return "\n".join(re.findall("^E {7}(.*)$", case.find("failure").text, re.MULTILINE))


def test_outcomes(example) -> None:
    printed, cases = example
    assert "2 failed, 2 passed" in printed
    assert {name for name, case in cases.items() if case.find("failure") is None} == {
        "test_the_engine_equals_the_module[ort-cpu]",
        "test_the_source_file_says_all_itself",
    }


def test_the_failure_says_everything(example) -> None:
    printed, cases = example
    text = raised(cases["test_a_bound_that_nothing_holds"])
    pattern = (
        r"AssertionError: error\[parity\]: \d+ of \d+ cases fail; worst: differs on .*: scores: max abs \S+ "
        r"is \S+ times the bound \(model\S*\.onnx\)\n"
        r"  where: inputs saved to (\S+/aotc-1\.failed\.npz); report: \S+/aotc-1\.failed\.html\n"
        r"  fix: aotc check \S+/ranker\.py --inputs (\S+) --bisect\n"
        r"  output scores on .* \(model\S*\.onnx\): max abs \S+ is \S+ times the bound; bound 0\.00e\+00\n"
        r"  again: pytest tests/test_ranker\.py::test_a_bound_that_nothing_holds"
    )
    match = re.fullmatch(pattern, text)
    assert match, text
    assert match[1] == match[2]
    assert Path(match[1]).is_file()
    assert '>       aotc_parity(SOURCE, tolerance={"scores": {"atol": 0.0}})' in printed
    assert "pytest_plugin.py" not in printed, "frames of the plugin are hidden"


def test_a_refusal_is_short_and_names_the_line(example) -> None:
    printed, cases = example
    text = raised(cases["test_a_model_that_is_refused"])
    assert text.startswith("aotc.errors.RefusedError: error[data-dependent]: ")
    line = 1 + (EXAMPLE / "tests/test_ranker.py").read_text().splitlines().index(
        "            return x + 1 if x.sum() > 0 else x"
    )
    assert f"\n  where: test_ranker.py:{line}\n" in text
    assert "aotc/pipeline.py" not in printed


@pytest.mark.parametrize(
    "name", ["test_the_engine_equals_the_module[ort-cpu]", "test_a_bound_that_nothing_holds"]
)
def test_figures_are_in_junit(example, name: str) -> None:
    case = example[1][name]
    found = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert found["aotc.target"] == "ort-cpu"
    assert found["aotc.scores.level"] == "executed"
    assert float(found["aotc.scores.max_abs"]) < 1e-5
    assert int(found["aotc.scores.cases"]) > 5
    assert (float(found["aotc.scores.ratio"]) > 1) == (case.find("failure") is not None)
    assert float(found["aotc.scores.bound"]) < 1e-5


@pytest.mark.parametrize("package", ["onnxruntime", "torch"])
def test_a_target_that_cannot_run_here_is_skipped_with_the_reason(project: Path, package: str) -> None:
    (project / "conftest.py").write_text(BLOCK.format(blocked=(package,)))
    done = run(project, "-k", "skipped")
    assert "1 skipped, 4 deselected" in done.stdout
    reason = f"ort-cpu cannot run here: error[environment]: the package '{package}' is not installed"
    assert reason in done.stdout
    assert "fix: " in done.stdout


def test_a_test_runs_once_for_each_target(project: Path) -> None:
    done = run(project, "-v", "-k", "not skipped")
    names = re.findall(r"::(\S+) PASSED", done.stdout)
    assert names == [
        "test_each_target[ort-cpu]",
        "test_each_target[tensorrt]",
        "test_a_mark_without_the_fixture",
        "test_the_default",
    ]
    assert "aotc_target(*targets): what aotc_parity builds for" in run(project, "--markers").stdout


def test_an_unknown_target_fails_and_is_not_skipped(project: Path) -> None:
    text = "def test_it(aotc_parity):\n    aotc_parity('nix.py', target='ort-cup')\n"
    (project / "test_it.py").write_text(text)
    done = run(project)
    assert "1 failed" in done.stdout
    assert (
        "error[config]: option 'target': there is no target 'ort-cup'; targets: ort-cpu, tensorrt-rtx"
        in done.stdout
    )


def test_hostile_names_steer_neither_terminal_nor_xml(project: Path) -> None:
    (project / "test_it.py").write_text(HOSTILE)
    done = run(project, "--junitxml=junit.xml", "--show-capture=no", "--tb=short")
    assert "1 failed" in done.stdout
    assert "\x1b" not in done.stdout
    (case,) = ElementTree.parse(project / "junit.xml").iter("testcase")
    assert "aotc.a?[31m?]]>&b.max_abs" in [p.get("name") for p in case.iter("property")]
    assert "a?[31m?]]>&b: max abs" in case.find("failure").text


def test_the_plugin_loads_nothing_but_itself() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["aotc", "aotc.pytest_plugin"]


def test_a_project_that_does_not_use_it_imports_nothing_heavy(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    assert sorted(n for n in sys.modules if n.partition('.')[0] == 'aotc') == "
        "['aotc', 'aotc.pytest_plugin']\n"
        "    assert not {'torch', 'numpy', 'pydantic', 'onnxruntime'} & set(sys.modules)\n"
    )
    # Other plugins of the environment import what they like.
    done = run(project, "-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:anyio")
    assert "1 passed" in done.stdout, done.stdout
