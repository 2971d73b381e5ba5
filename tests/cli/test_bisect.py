"""``aotc check --bisect`` on the command line: what it prints, saves and refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import parts_model
import pytest

from aotc.cli.bisect import REMARKS

WRONG = ("x))", "1.01 * x))")


def test_names_the_first_wrong_value_and_saves_a_reproduction(cli, folder: Path, source) -> None:
    changed = source(WRONG, ("def accuracy", "def _"))
    done = cli("check", "bundle", changed, "--bisect")
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if "aten.linear" in line)
    assert line.startswith("first (with the model itself): aten.linear: max abs ")
    assert line.endswith("; nothing is computed before it; variant.py:18")
    assert "\nreproduction: bundle.bisect, python run.py\n" in done.out
    found = cli("check", "bundle", changed, "--bisect", "--json").document("check")["bisect"]
    assert found["kind"] == "value"
    assert (found["module"], found["op"], found["line"]) == ("first", "aten.linear", "variant.py:18")
    assert found["figures"]["max_abs"] > 1e-3
    run = subprocess.run(
        [sys.executable, "run.py"], cwd=folder / "bundle.bisect", capture_output=True, text=True, check=True
    )
    assert f"max abs {found['figures']['max_abs']}" in run.stdout


def test_inputs_of_a_failed_build(cli, folder: Path, source) -> None:
    name = source(("self.second(", "(1.5 if torch.compiler.is_exporting() else 1) * self.second("))
    assert cli("build", name, "-o", "new").code == 1
    done = cli("check", name, "--inputs", "new.failed.npz", "--bisect", "--json")
    assert done.code == 1
    found = done.document("check")["bisect"]
    assert found["graph"] == "torch.export"
    assert found["line"] == "variant.py:18"


def test_passes(cli, folder: Path, source) -> None:
    name = source(("self.second(", "(1.5 if torch.compiler.is_exporting() else 1) * self.second("))
    np.savez(folder / "one.npz", x=np.ones((5, 4), np.float32))
    done = cli("check", name, "--inputs", "one.npz", "--bisect", "passes")
    assert done.code == 1
    assert "\nimport: the output 'logits' differs: max abs " in done.out


def test_the_reproduction_shows_another_shape(cli, folder: Path, source) -> None:
    changed = source(
        ("torch.relu(self.first(x))", "torch.relu(torch.cat([self.first(x)] * 2)[:1])"),
        ("def accuracy", "def _"),
    )
    assert cli("check", "bundle", changed, "--bisect").code == 1
    run = subprocess.run(
        [sys.executable, "run.py"], cwd=folder / "bundle.bisect", capture_output=True, text=True, check=True
    )
    assert "instead of float32 (1, 8)" in run.stdout


def test_passes_of_a_source_that_changed(cli, folder: Path, source) -> None:
    done = cli("check", "bundle", source(WRONG), "--bisect", "passes")
    assert done.code == 1
    assert REMARKS["passes"] in " ".join(done.out.split())


def test_an_operator_more_at_an_output(cli, folder: Path, source) -> None:
    """The value that has the output's place in the bundle is an inner one of the source now."""
    changed = source(("(self.first(x))))}", "(self.first(x)))) * 1.01}"))
    done = cli("check", "bundle", changed, "--bisect", "--json")
    assert done.code == 1, done.err
    found = done.document("check")["bisect"]
    assert (found["value"], found["op"]) == ("logits", "aten.mul.Tensor")


def test_a_bundle_in_parts(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(parts_model.PARTS)
    assert cli("build", "model.py", "-o", "dist").code == 0
    text = parts_model.PARTS
    (tmp_path / "changed.py").write_text(text.replace("torch.tanh(", "1.01 * torch.tanh("))
    assert "1.01" in (tmp_path / "changed.py").read_text()
    done = cli("check", "dist", "changed.py", "--bisect", "--json")
    assert done.code == 1
    assert done.document("check")["bisect"]["op"] == "aten.mul.Tensor"
    assert cli("check", "dist").code == 0  # nothing was written into the bundle


def test_a_bundle_that_holds_is_not_searched(cli, folder: Path) -> None:
    done = cli("check", "bundle", "model.py", "--bisect", "--json")
    assert done.code == 0, done.err
    assert done.document("check")["bisect"] is None


def test_without_a_source_there_is_no_right_value(cli, folder: Path) -> None:
    done = cli("check", "bundle", "--bisect")
    assert done.code == 2
    assert done.error == (
        "error[usage]: --bisect needs the source file: eager says what is right\n"
        "  fix: aotc check bundle SOURCE --bisect"
    )


def test_a_metric_alone_cannot_be_searched(cli, folder: Path, source) -> None:
    counts = "\n\ncalls = []\n\n\ndef accuracy(run):\n    calls.append(1)\n"
    name = source(end=f"{counts}    return min(len(calls), 2)\n")
    done = cli("check", "bundle", name, "--bisect")
    assert done.code == 2
    assert done.error.startswith("error[bisect]: no case fails, only accuracy(): ")
