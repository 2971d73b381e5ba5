"""Imports point one way, heavy packages are imported where they are used, and one tree is under test."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import aotc_passes
import aotc_plugins
from project_tree import ROOT, SHIPPED, name, python_files

import aotc
from aotc.cli.doctor import EXTRAS

RUNTIMES = {"torch", "onnxruntime", "tensorrt", "tensorrt_rtx"}
AT_MODULE_LEVEL = {"aotc/parity/interpreter.py", "aotc/parity/upcast.py"}
"""Its classes are torch's; it is imported only where eager runs."""


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_layers_are_kept() -> None:
    command = str(Path(sys.executable).with_name("lint-imports"))
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_has_a_layer() -> None:
    (contract,) = pyproject()["tool"]["importlinter"]["contracts"]
    layered = {module.strip() for layer in contract["layers"] for module in layer.split("|")}
    folder = ROOT / "aotc"
    files = {f"aotc.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    packages = {f"aotc.{path.parent.name}" for path in folder.glob("*/__init__.py")}
    assert layered == files | packages | {"aotc_passes", "aotc_plugins"}


def test_no_runtime_is_imported_with_a_module() -> None:
    found = {name(p): _top_level(p) & RUNTIMES for p in python_files(*SHIPPED)}
    assert {path for path, modules in found.items() if modules} == AT_MODULE_LEVEL


def _top_level(path: Path) -> set[str]:
    """Return the packages imported at module level, also in ``try`` and in classes, not for type checking."""
    packages: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
        pending.extend(ast.iter_child_nodes(node))
    return packages


def test_the_three_packages_come_from_one_root() -> None:
    roots = {Path(str(package.__file__)).parents[1] for package in (aotc, aotc_passes, aotc_plugins)}
    base = Path(str(aotc.__file__)).parents[1]
    assert roots in ({base}, {base, base / "passes", base / "plugins"})


def test_doctor_knows_the_extras() -> None:
    extras = pyproject()["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert {text.partition(">=")[0] for text in extras[extra]} == set(packages)
