"""Every sample's README, executed from the top of the repository, and what the bundle then holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import aotc
from aotc.parity import golden

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(path.parent.name for path in (ROOT / "samples").glob("*/model.py"))
ACCURACY = {
    "digits": (0.97, 1.0),
    "minilm": (0.7, 1.0),
    "pitch": (-0.05, 0.0),
    "silero-vad": (-1e-6, 0.0),
    "tiny-lm": (-2.0, -1.8),
}
"""Eager's own figure lies in this range: a sample that lost its training would not."""


def commands(readme: Path) -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module", params=SAMPLES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    """Run the README's commands once; return (sample, bundle, what they printed)."""
    sample = request.param
    folder = tmp_path_factory.mktemp(sample)
    (folder / "samples").symlink_to(ROOT / "samples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    printed = ""
    for command in commands(ROOT / "samples" / sample / "README.md"):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    return sample, folder / "dist" / sample, printed


def test_every_sample_has_a_readme_that_builds_and_runs_it() -> None:
    for sample in SAMPLES:
        text = (ROOT / "samples" / sample / "README.md").read_text(encoding="utf-8")
        assert "## What it shows" in text
        assert "## Run it" in text
        assert f"aotc build samples/{sample}/model.py --target ort-cpu -o dist/{sample}" in text
        assert f"aotc run dist/{sample} --input" in text


def test_the_bundle_is_verified(built: tuple[str, Path, str]) -> None:
    sample, bundle, printed = built
    assert "verified against eager" in printed
    verdict = json.loads((bundle / "parity.json").read_text(encoding="utf-8"))
    assert [engine["engine"] for engine in verdict["engines"]] == ["model.onnx", "model.ort-optimised.onnx"]
    for engine in verdict["engines"]:
        assert {case["outcome"] for case in engine["cases"]} <= {"equal", "both raise"}
    low, high = ACCURACY[sample]
    assert low <= verdict["accuracy"]["eager"] <= high
    assert verdict["accuracy"]["engine"] == pytest.approx(verdict["accuracy"]["eager"], abs=1e-4, rel=0)


def test_golden_inputs_replay(built: tuple[str, Path, str]) -> None:
    verdict = aotc.check(built[1])
    assert verdict.passed
    assert all(case.outcome == "equal" for case in verdict.engines[0].cases)


def test_plain_onnxruntime_runs_the_portable_engine(built: tuple[str, Path, str]) -> None:
    _, bundle, _ = built
    with aotc.load(bundle) as engine:
        case = engine.description.golden[0]
        inputs = tuple(spec.name for spec in engine.signature.inputs)
        outputs = tuple(spec.name for spec in engine.signature.outputs)
    feeds = golden.read_inputs(bundle / case.inputs, inputs)
    expected = golden.read_expected(bundle / case.outputs, outputs)
    session: Any = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    for name, value in zip(outputs, session.run(list(outputs), feeds), strict=True):
        np.testing.assert_allclose(value, expected[name].value, rtol=0, atol=expected[name].tolerance.atol)
