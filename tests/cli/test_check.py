"""``aotc check``: golden inputs, eager again, one saved input set."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest


def test_replays_golden_inputs_and_records_the_result(cli, folder: Path) -> None:
    done = cli("check", "bundle", "--threads", "1")
    assert done.code == 0, done.err
    assert done.out.endswith("verified on golden inputs\n")
    checked = json.loads((folder / "bundle.checked.json").read_text())
    assert checked["verdict"] == "pass"
    assert checked["digest"] == json.loads((folder / "bundle/bundle.json").read_text())["digest"]


def test_runs_eager_again(cli, folder: Path) -> None:
    done = cli("check", "bundle", "model.py", "--seed", "9", "--json")
    assert done.code == 0, done.err
    document = done.document("check")
    assert document["passed"]
    assert document["bundle"] == "bundle"
    assert document["verdict"]["accuracy"]["eager"] == document["verdict"]["accuracy"]["engine"]


def test_only_the_given_inputs(cli, folder: Path) -> None:
    np.savez(folder / "one.npz", x=np.ones((5, 4), np.float32))
    for paths in (["bundle", "model.py"], ["model.py"]):
        done = cli("check", *paths, "--inputs", "one.npz", "--json")
        assert done.code == 0, done.err
        assert len(done.document("check")["verdict"]["engines"][0]["cases"]) == 1


def test_a_negative_verdict(cli, folder: Path, source) -> None:
    changed = source(("self.second(", "1.01 * self.second("), ("def accuracy", "def _"))
    done = cli("check", "bundle", changed)
    assert done.code == 1
    assert done.error.startswith("error[parity]: ")
    assert "cases fail; worst: differs on " in done.error
    assert "\n  where: model.ort-optimised.onnx; inputs saved to bundle.failed.npz\n" in done.error
    assert "FAIL" in done.out
    assert "verified" not in done.out
    document = cli("check", "bundle", changed, "--json").document("check")
    assert not document["passed"]


def test_another_accuracy_is_a_negative_verdict_that_says_so(cli, folder: Path, source) -> None:
    counts = "\n\ncalls = []\n\n\ndef accuracy(run):\n    calls.append(1)\n"
    name = source(end=f"{counts}    return min(len(calls), 2)\n")
    done = cli("check", "bundle", name)
    assert done.code == 1
    assert done.error == (
        "error[parity]: accuracy() is 2 on the engine and 1 on eager: 1 apart, and 0.0001 is allowed\n"
        "  where: model.ort-optimised.onnx\n"
        "  fix: aotc build again, if the weights changed since; model() must make the same ones at every call"
    )


def test_a_source_with_other_arguments_is_refused(cli, folder: Path, source) -> None:
    name = source(("forward(self, x)", "forward(self, y)"), ("first(x)", "first(y)"))
    done = cli("check", "bundle", name)
    assert done.code == 4
    assert done.error == (
        "error[compatibility]: the source's forward takes other arguments than the bundle\n"
        "  where: y\n  fix: build the bundle again from this source"
    )


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            ["bundle", "--inputs", "model.py"],
            "error[usage]: --inputs needs the source, which says what is right\n"
            "  fix: aotc check bundle SOURCE --inputs model.py",
        ),
        (["model.py"], "error[usage]: there is no bundle to check\n  fix: aotc build model.py -o DIR"),
        (
            ["bundle", "bundle"],
            "error[usage]: aotc check takes one bundle folder and one source at most\n"
            "  fix: aotc check --help",
        ),
        (
            ["nix"],
            "error[usage]: Invalid value for 'PATHS...': Path 'nix' does not exist.\n"
            "  fix: aotc check --help",
        ),
        (
            ["bundle", "model.py", "--inputs", "model.py"],
            "error[input]: model.py is not an .npz archive of named arrays\n"
            "  fix: numpy.savez(file, name=array, ...) writes one",
        ),
    ],
)
def test_wrong_usage(cli, folder: Path, args: list[str], text: str) -> None:
    done = cli("check", *args)
    assert (done.code, done.error) == (2, text)


def test_a_folder_that_is_no_bundle(cli, folder: Path) -> None:
    shutil.rmtree(folder / "bundle")
    (folder / "bundle").mkdir()
    done = cli("check", "bundle")
    assert done.code == 4
    assert done.error == (
        "error[integrity]: the file 'bundle.json' is missing\n  where: bundle\n"
        "  fix: build or copy the bundle again"
    )
