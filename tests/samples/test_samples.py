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
SAMPLES = sorted(path.parent.name for path in (ROOT / "samples").glob("*/README.md"))
ACCURACY = {
    "digits": (0.97, 1.0),
    "minilm": (0.7, 1.0),
    "pitch": (-0.05, 0.0),
    "silero-vad": (-1e-6, 0.0),
    "tiny-lm": (-2.0, -1.8),
}
"""Eager's own figure lies in this range: a sample that lost its training would not."""
ANSWERS = {
    "magika": [
        "README.md: markdown",
        "model.py: python",
        "build.sh: shell",
        "config.json: json",
        "heldout-LICENSE.txt: txt",
        "model.onnx: onnx",
    ],
    "ocr": ["The quick brown fox", "jumps over 13 dogs", "and lands upside down (was upside down)"],
}
"""How lines begin that the bundles of an ONNX file print: a file has no metric of its own."""
SLOW = {"ocr"}


def has_module(sample: str) -> bool:
    """Return whether a sample is a PyTorch model; else it is ONNX files."""
    return (ROOT / "samples" / sample / "model.py").is_file()


def commands(readme: Path) -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.full] * (name in SLOW)) for name in SAMPLES]
)
def built(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[Path], str]:
    """Run the README's commands once; return (sample, bundles, what they printed)."""
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
    bundles = sorted(path.parent for path in (folder / "dist" / sample).rglob("bundle.json"))
    return sample, bundles, printed


def test_every_sample_has_a_readme_that_builds_and_runs_it() -> None:
    for sample in SAMPLES:
        text = (ROOT / "samples" / sample / "README.md").read_text(encoding="utf-8")
        assert "## What it shows" in text
        assert "## Run it" in text
        if has_module(sample):
            assert f"aotc build samples/{sample}/model.py --target ort-cpu -o dist/{sample}" in text
            assert f"aotc run dist/{sample} --input" in text
            continue
        builds = re.findall(
            rf'^aotc build "\$\(python samples/{sample}/find_model\.py[ a-z]*\)" .*-o (dist/{sample}\S*)$',
            text,
            re.MULTILINE,
        )
        assert builds
        assert all(f"aotc run {bundle} --input" in text for bundle in builds)


def test_the_bundles_are_verified(built: tuple[str, list[Path], str]) -> None:
    sample, bundles, printed = built
    reference = "eager" if has_module(sample) else "the untouched file"
    builds = [each for each in commands(ROOT / "samples" / sample / "README.md") if "aotc build" in each]
    assert printed.count(f"verified against {reference}") == len(builds) == len(bundles)
    for bundle in bundles:
        verdict = read_verdict(bundle)
        names = [engine["engine"] for engine in verdict["engines"]]
        assert names == ["model.onnx", "model.ort-optimised.onnx"]
        for engine in verdict["engines"]:
            assert {case["outcome"] for case in engine["cases"]} <= {"equal", "both raise"}


def test_it_does_what_it_was_trained_for(built: tuple[str, list[Path], str]) -> None:
    sample, bundles, printed = built
    if has_module(sample):
        (bundle,) = bundles
        accuracy = read_verdict(bundle)["accuracy"]
        low, high = ACCURACY[sample]
        assert low <= accuracy["eager"] <= high
        assert accuracy["engine"] == pytest.approx(accuracy["eager"], abs=1e-4, rel=0)
    else:
        lines = printed.splitlines()
        for answer in ANSWERS[sample]:
            assert any(line.startswith(answer) for line in lines), f"{answer}\n{printed}"


def read_verdict(bundle: Path) -> dict[str, Any]:
    return json.loads((bundle / "parity.json").read_text(encoding="utf-8"))


def test_golden_inputs_replay(built: tuple[str, list[Path], str]) -> None:
    for bundle in built[1]:
        verdict = aotc.check(bundle)
        assert verdict.passed
        assert all(case.outcome == "equal" for case in verdict.engines[0].cases)


def test_plain_onnxruntime_runs_the_portable_engine(built: tuple[str, list[Path], str]) -> None:
    sample, bundles, _ = built
    for bundle in bundles:
        compare_portable_engine(bundle, absolute=has_module(sample))


def compare_portable_engine(bundle: Path, *, absolute: bool) -> None:
    """Compare with what is sealed, within the bound that is sealed, or within its absolute part alone."""
    with aotc.load(bundle) as engine:
        case = engine.description.golden[0]
        inputs = tuple(spec.name for spec in engine.signature.inputs)
        outputs = tuple(spec.name for spec in engine.signature.outputs)
    feeds = golden.read_inputs(bundle / case.inputs, inputs)
    expected = golden.read_expected(bundle / case.outputs, outputs)
    session: Any = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    for name, value in zip(outputs, session.run(list(outputs), feeds), strict=True):
        bound = expected[name].tolerance
        rtol = 0 if absolute else bound.rtol
        np.testing.assert_allclose(value, expected[name].value, rtol=rtol, atol=bound.atol)
