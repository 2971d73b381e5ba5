"""The wheel, made from the sdist: its content, the tests against it, and a serving machine without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from project_tree import ROOT

pytestmark = pytest.mark.full
SOURCE = """
import torch
from torch import nn
from torch.export import Dim

dynamic_shapes = ({0: Dim("n")},)


def model():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Linear(8, 16), layer, nn.GRU(16, 4)).eval()


def inputs():
    torch.manual_seed(0)
    return (torch.randn(2, 5, 8),)
"""
SERVE = """
import importlib.util, sys
import numpy as np
import aotc
assert importlib.util.find_spec("torch") is None
assert importlib.util.find_spec("onnx") is None
engine = aotc.load(sys.argv[1])
print(engine.run(np.ones((3, 4), np.float32))["logits"].shape)
"""


def sh(*command: str | Path, cwd: Path) -> str:
    """Run a command outside this virtual environment and return what it printed."""
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "VIRTUAL"))
    }
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def venv(folder: Path, *requirements: str | Path) -> Path:
    """Make a virtual environment and return its folder of programs."""
    sh(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    for requirement in requirements:
        sh(folder / "bin/pip", "install", "--quiet", requirement, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packaging")
    programs = venv(folder / "builder", "hatchling")
    sh(programs / "python", "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.glob("aotc-*.tar.gz")
    sh(programs / "pip", "wheel", "--quiet", "--no-deps", "-w", folder, sdist, cwd=folder)
    (path,) = folder.glob("aotc-*.whl")
    return path


def test_the_wheel_holds_three_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {"aotc", "aotc_passes", "aotc_plugins"}
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == packages
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    assert "aotc/bundle/bundle.schema.json" in names
    templates = {f"aotc/report/templates/{path.name}" for path in (ROOT / "aotc/report/templates").iterdir()}
    assert templates <= set(names)
    shipped = {f"aotc/cli/schemas/{path.name}" for path in (ROOT / "aotc/cli/schemas").iterdir()}
    assert shipped <= set(names)


def test_the_unit_tests_pass_against_the_wheel(wheel: Path, tmp_path: Path) -> None:
    programs = venv(tmp_path / "venv", "torch==2.13.0", f"{wheel}[cpu,build,hf,test]")
    elsewhere = tmp_path / "elsewhere"
    for folder in ("unit", "support", "cases"):
        shutil.copytree(ROOT / "tests" / folder, elsewhere / "tests" / folder)
    shutil.copytree(ROOT / "docs", elsewhere / "docs")
    shutil.copy(ROOT / "pyproject.toml", elsewhere)
    printed = sh(programs / "pytest", "-q", "-m", "not full", "tests/unit", cwd=elsewhere)
    assert " passed" in printed
    where = sh(programs / "python", "-c", "import aotc, aotc_passes; print(aotc.__file__)", cwd=elsewhere)
    assert Path(where.strip()).is_relative_to(tmp_path / "venv")


def lower_bounds(*extras: str) -> list[str]:
    """Return the oldest versions that pyproject.toml allows, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(r for e in extras for r in project["optional-dependencies"][e])]
    assert all(">=" in requirement for requirement in wanted)
    return [requirement.replace(">=", "==") for requirement in wanted]


def test_the_oldest_versions_serve(wheel: Path, tiny: Path, tmp_path: Path) -> None:
    programs = venv(tmp_path / "venv")
    sh(programs / "pip", "install", "--quiet", *lower_bounds("cpu"), wheel, cwd=tmp_path)
    shutil.copytree(tiny / "bundle", tmp_path / "bundle")
    assert sh(programs / "python", "-c", SERVE, "bundle", cwd=tmp_path) == "(3, 3)\n"
    assert "verified on golden inputs" in sh(
        programs / "aotc", "check", "bundle", "--junit", "r.xml", cwd=tmp_path
    )


def test_the_oldest_versions_build(wheel: Path, tmp_path: Path) -> None:
    programs = venv(tmp_path / "venv", "torch==2.13.0")
    sh(programs / "pip", "install", "--quiet", *lower_bounds("cpu", "build"), wheel, cwd=tmp_path)
    (tmp_path / "net.py").write_text(SOURCE)
    printed = sh(programs / "aotc", "build", "net.py", "-o", "net", cwd=tmp_path)
    assert "verified against eager" in printed


def test_a_serving_machine_has_the_runtime_alone(wheel: Path, tiny: Path, tmp_path: Path) -> None:
    programs = venv(tmp_path / "venv", f"{wheel}[cpu]")
    shutil.copytree(tiny / "bundle", tmp_path / "bundle")
    assert sh(programs / "python", "-c", SERVE, "bundle", cwd=tmp_path) == "(3, 3)\n"
    assert "verified on golden inputs" in sh(
        programs / "aotc", "check", "bundle", "--junit", "r.xml", cwd=tmp_path
    )
    assert "logits" in sh(programs / "aotc", "run", "bundle", "--random", cwd=tmp_path)
    assert "parity with eager" in sh(programs / "aotc", "inspect", "bundle", cwd=tmp_path)
    assert "target ort-cpu: ready" in sh(programs / "aotc", "doctor", cwd=tmp_path)
