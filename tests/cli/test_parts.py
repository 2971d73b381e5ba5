"""A model in parts on the command line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest
from commandline import COMPILER, aotc
from parts_model import PARTS


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``model.py``, its bundle and what the build printed; nobody writes into it."""
    folder = tmp_path_factory.mktemp("parts")
    with filelock.FileLock(folder / "lock"):
        (folder / "model.py").write_text(PARTS, encoding="utf-8")
        done = aotc("build", "model.py", "-o", "dist", "--threads", "1", "--json", cwd=folder)
        assert done.returncode == 0, done.stderr
        (folder / "build.json").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(built, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_build_has_a_verdict_of_each_part(folder: Path) -> None:
    document = json.loads((folder / "build.json").read_text())
    assert document["passed"]
    assert set(document["verdict"]["parts"]) == {"encoder", "decoder"}
    assert document["verdict"]["accuracy"]["engine"] == pytest.approx(10 / 3)
    assert document["digest"] == json.loads((folder / "dist/bundle.json").read_text())["digest"]


def test_check_replays_every_part_without_a_compiler(folder: Path) -> None:
    done = aotc("check", "dist", cwd=folder, hidden=COMPILER)
    assert done.returncode == 0, done.stderr
    for output in ("decoder.logits", "encoder.output"):
        assert re.search(rf"^{output} .* pass$", done.stdout, re.MULTILINE)
    digest = json.loads((folder / "dist/bundle.json").read_text())["digest"]
    checked = json.loads((folder / "dist.checked.json").read_text())
    assert (checked["digest"], checked["verdict"]) == (digest, "pass")
    assert (folder / "dist.encoder.checked.json").is_file()


def test_check_against_eager_runs_the_metric(cli, folder: Path) -> None:
    done = cli("check", "dist", "model.py", "--threads", "1", "--json")
    assert done.code == 0, done.err
    document = done.document("check")
    assert set(document["verdict"]["parts"]) == {"encoder", "decoder"}
    assert document["verdict"]["accuracy"]["eager"] == pytest.approx(10 / 3)


def test_check_names_the_part_that_differs(cli, folder: Path) -> None:
    (folder / "model.py").write_text(PARTS.replace("torch.tanh(", "1.01 * torch.tanh("))
    done = cli("check", "dist", "model.py", "--threads", "1")
    assert done.code == 1
    assert done.error.startswith("error[parity]: part 'encoder': ")
    place = "encoder/model.ort-optimised.onnx; inputs saved to dist.encoder.failed.npz"
    assert f"\n  where: {place}\n  fix: " in done.error
    assert json.loads((folder / "dist.checked.json").read_text())["verdict"] == "fail"


def test_check_says_when_only_the_metric_differs(cli, folder: Path) -> None:
    counts = "\n\ncalls = []\n\n\ndef accuracy(run):\n    calls.append(1)\n    return min(len(calls), 2)\n"
    (folder / "model.py").write_text(PARTS + counts)
    done = cli("check", "dist", "model.py", "--threads", "1")
    assert done.code == 1
    assert done.error.startswith(
        "error[parity]: accuracy() is 2 on the engine and 1 on eager: 1 apart, and 0.0001 is allowed\n"
    )


def test_a_part_is_checked_and_timed_against_its_part_of_the_source(cli, folder: Path) -> None:
    done = cli("check", "dist/encoder", "model.py:encoder", "--threads", "1")
    assert done.code == 0, done.err
    done = cli("bench", "dist/encoder", "--vs", "model.py:encoder", "--repeat", "1", "--json")
    assert done.code == 0, done.err
    assert "eager" in done.document("bench")["sizes"][0]["runners"]


def test_inspect(cli, folder: Path) -> None:
    done = cli("inspect", "dist")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].endswith(": 2 parts")
    assert {"forward(ids, hidden) -> {logits: logits}", "forward(ids) -> output"} < set(lines)
    assert "accuracy: eager 3.33333, engine 3.33333" in done.out
    assert lines[2] == "report dist/report.html"
    page = (folder / "dist/report.html").read_text(encoding="utf-8")
    assert 'href="encoder/report.html"' in page
    assert "Verified against eager" in (folder / "dist/encoder/report.html").read_text(encoding="utf-8")
    document = cli("inspect", "dist", "--json").document("inspect")
    assert document["report"] == "dist/report.html"
    described = json.loads((folder / "dist/bundle.json").read_text())
    assert document["digest"] == described["digest"]
    assert {n: part["digest"] for n, part in document["parts"].items()} == {
        n: part["digest"] for n, part in described["parts"].items()
    }
    assert document["parts"]["decoder"]["signature"]["inputs"][1]["name"] == "hidden"
    assert document["accuracy"]["engine"] == pytest.approx(10 / 3)


WHOLE = (
    "error[parts]: the bundle dist has the parts decoder, encoder\n"
    "  fix: name a part: dist/decoder or dist/encoder"
)
SOURCE = (
    "error[parts]: the source has the parts encoder, decoder\n"
    "  fix: name a part: model.py:encoder or model.py:decoder"
)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["run", "dist", "--random"], WHOLE),
        (["bench", "dist"], WHOLE),
        (["inspect", "dist", "--why", "fold-constants"], WHOLE),
        (["check", "dist", "model.py:encoder"], WHOLE),
        (["check", "dist", "model.py", "--inputs", "one.npz"], WHOLE),
        (["check", "dist/encoder", "model.py"], SOURCE),
        (["check", "model.py", "--inputs", "one.npz"], SOURCE),
        (["bench", "dist/encoder", "--vs", "model.py"], SOURCE),
        (
            ["build", "model.py:head", "-o", "new"],
            "error[parts]: model.py has no part 'head'\n  fix: parts: encoder, decoder",
        ),
        (["build", "nix.py:encoder", "-o", "new"], "error[source]: there is no source file nix.py"),
        (
            ["check", "dist", "nix.py:encoder"],
            "error[usage]: Invalid value for 'PATHS...': Path 'nix.py' does not exist.\n"
            "  fix: aotc check --help",
        ),
    ],
)
def test_a_part_has_to_be_named(cli: Callable[..., object], folder: Path, args: list[str], text: str) -> None:
    import numpy as np

    np.savez(folder / "one.npz", ids=np.zeros((1, 1), np.int64))
    done = cli(*args)
    assert (done.code, done.error) == (2, text)


def test_a_swapped_part_is_refused_everywhere(cli, folder: Path) -> None:
    shutil.rmtree(folder / "dist/encoder")
    shutil.copytree(folder / "dist/decoder", folder / "dist/encoder")
    for command in ("check", "inspect"):
        done = cli(command, "dist")
        assert done.code == 4
        assert done.error.startswith("error[integrity]: the part 'encoder' is another bundle: ")
