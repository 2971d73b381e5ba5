"""``aotc build``: its options, and what it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import aotc as api


def test_prints_the_verdict_on_stdout_and_the_stages_on_stderr(tiny: Path) -> None:
    text = (tiny / "build.txt").read_text(encoding="utf-8")
    assert re.search(r"^logits +\d+ .* pass$", text, re.MULTILINE)
    assert re.search(r"^engines +model\.onnx, model\.ort-optimised\.onnx *$", text, re.MULTILINE)
    assert re.search(r"^seconds +load [\d.]+, import .*, seal [\d.]+ *$", text, re.MULTILINE)
    assert re.search(r"^sizes +model\.onnx [\d.]+ KiB, ", text, re.MULTILINE)
    assert "\nreport: bundle/report.html\n" in text
    assert re.search(r"^accuracy: eager [\d.]+, engine [\d.]+$", text, re.MULTILINE)
    digest = json.loads((tiny / "bundle" / "bundle.json").read_text())["digest"]
    assert f"verified against eager: bundle (digest {digest[:12]})\n" in text
    stages = re.findall(r"^(\w+) +[\d.]+ s$", text, re.MULTILINE)
    assert (stages[:2], stages[-2:]) == (["load", "import"], ["check", "seal"])
    assert set(stages[2:-2]) == {"optimise", "eager", "emit"}


def test_every_option(cli, folder: Path) -> None:
    options = [
        "--target",
        "ort-cpu",
        "--precision",
        "fp32",
        "--accept",
        "graph",
        "--threads",
        "1",
        "--validate",
        "each",
        "--seed",
        "3",
    ]
    options += ["--disable", "fold-batch-norm", "--disable", "share-duplicates", "--dump-dir", "dump"]
    done = cli("build", "model.py", "-o", "out/bundle", *options, "--json")
    assert done.code == 0, done.err
    document = done.document("build")
    assert document["passed"]
    assert document["bundle"] == "out/bundle"
    description = json.loads((folder / "out/bundle/bundle.json").read_text())
    assert document["digest"] == description["digest"]
    recorded = {"disable": ["fold-batch-norm", "share-duplicates"], "seed": 3, "validate": "each"}
    trust = {"trust_remote_code": False, "trust_source": False}
    assert description["options"] == {**recorded, **trust, "precision": "fp32", "tolerance": {}}
    ran = {entry["name"].partition("{")[0] for entry in description["passes"]}
    assert "fold-constants" in ran
    assert not {"fold-batch-norm", "share-duplicates"} & ran
    changed = [i for i, entry in enumerate(description["passes"]) if entry["changes"]]
    assert [int(p.name[:3]) for p in sorted((folder / "dump").glob("*.onnxtxt"))] == changed
    engine = api.load(folder / "out/bundle")
    assert engine.run(np.zeros((3, 4), np.float32))["logits"].shape == (3, 3)


def test_options_come_from_a_file_and_the_environment(cli, folder: Path, monkeypatch) -> None:
    (folder / "aotc.toml").write_text('seed = 5\nvalidate = "each"\n')
    monkeypatch.setenv("AOTC_DISABLE", "fold-batch-norm,share-duplicates")
    assert cli("build", "model.py", "-o", "out", "--seed", "6").code == 0
    options = json.loads((folder / "out/bundle.json").read_text())["options"]
    assert options["seed"] == 6
    assert options["validate"] == "each"
    assert options["disable"] == ["fold-batch-norm", "share-duplicates"]


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        (
            "sead = 5",
            "error[config]: unknown option 'sead'\n  where: aotc.toml\n  fix: did you mean 'seed'?",
        ),
        (
            "seed = -1",
            "error[config]: option 'seed': Input should be greater than or equal to 0\n  where: aotc.toml",
        ),
        (
            "seed = x",
            "error[config]: aotc.toml is not valid TOML: Invalid value (at line 1, column 8)",
        ),
    ],
)
def test_a_bad_config_file_is_an_error(cli, folder: Path, toml: str, text: str) -> None:
    (folder / "aotc.toml").write_text(toml)
    done = cli("build", "model.py", "-o", "out")
    assert (done.code, done.error) == (2, text)


def test_an_unknown_pass_is_an_error_with_a_suggestion(cli, folder: Path) -> None:
    done = cli("build", "model.py", "-o", "out", "--disable", "fold-batchnorm")
    assert done.code == 2
    assert done.error == (
        "error[usage]: there is no pass 'fold-batchnorm'\n  fix: did you mean 'fold-batch-norm'?"
    )


def test_a_missing_source_file(cli, folder: Path) -> None:
    done = cli("build", "nix.py", "-o", "out")
    assert (done.code, done.error) == (2, "error[source]: there is no source file nix.py")


def test_what_is_not_a_bundle_is_never_replaced(cli, folder: Path) -> None:
    (folder / "precious").mkdir()
    (folder / "precious/letter.txt").write_text("dear")
    done = cli("build", "model.py", "-o", "precious")
    assert done.code == 2
    assert done.error == (
        "error[destination]: precious is a folder without a bundle.json of ours; "
        "it was left as it is\n  fix: choose another destination, or move away what is there"
    )
    assert [p.name for p in (folder / "precious").iterdir()] == ["letter.txt"]
