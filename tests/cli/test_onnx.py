"""ONNX files on the command line: build, check, inspect, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_files import constant, info, save

Node = helper.make_node


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with an old ONNX file and inputs for it."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        Node("MatMul", ["x", "w"], ["m"], name="/head/MatMul"),
        Node("Clip", ["m"], ["y"], min=-1.0, max=1.0, name="/head/Clip"),
    ]
    weight = constant("w", np.random.default_rng(0).standard_normal((4, 5)))
    save(
        tmp_path / "net.onnx", nodes, [info("x", ["batch", 4])], [info("y", ["batch", 5])], [weight], opset=9
    )
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32))
    return tmp_path


def test_build_check_inspect_and_run(cli, folder: Path) -> None:
    args = ["build", "net.onnx", "--inputs", "x.npz", "--dim", "batch=1:2:8", "-o", "bundle"]
    done = cli(*args, "--json")
    assert done.code == 0, done.err
    document = done.document("build")
    assert document["passed"]
    assert document["notes"] == []
    done = cli("inspect", "bundle")
    assert "forward(x) -> {y: y}" in done.out
    assert "profile 0: batch 1 to 8 (opt 2)" in done.out
    assert any(line.split()[:2] == ["head", "2"] for line in done.out.splitlines())
    assert "verified on golden inputs" in cli("check", "bundle").out
    assert "verified against the untouched file" in cli("check", "bundle", "net.onnx").out
    assert cli("check", "bundle", "net.onnx", "--inputs", "x.npz").code == 0
    assert cli("check", "net.onnx", "--inputs", "x.npz").code == 0
    assert cli("run", "bundle", "--input", "x.npz").code == 0


def test_without_inputs_or_profile(cli, folder: Path) -> None:
    done = cli("build", "net.onnx", "-o", "bundle")
    assert done.code == 0, done.err
    assert "note: no inputs were given: the example was drawn" in done.out
    assert "note: 'batch' has no profile" in done.out
    assert "verified against the untouched file: bundle" in done.out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["net.onnx", "--dim", "batch"], 2, "'batch' is not like seq=1:128:512"),
        (["net.onnx", "--dim", "batch=1:2"], 2, "'batch=1:2' is not like"),
        (["net.onnx", "--dim", "batch=4:2:1"], 2, "not in the order MIN:OPT:MAX"),
        (["net.onnx", "--dim", "n=1:2:3"], 2, "the profile names the dim 'n'"),
        (["net.onnx", "--inputs", "wrong.npz"], 2, "the input 'x' is missing"),
        (["missing.onnx"], 2, "there is no file missing.onnx"),
        (["model.py", "--inputs", "x.npz"], 2, "--inputs is for an ONNX file"),
        (["model.py", "--dim", "batch=1:2:3"], 2, "--dim is for a source without profiles"),
        (["cut.onnx"], 3, "no ONNX file"),
        (["text.onnx"], 3, "no ONNX file"),
    ],
)
def test_what_is_refused(cli, folder: Path, args: list[str], code: int, said: str) -> None:
    (folder / "cut.onnx").write_bytes((folder / "net.onnx").read_bytes()[:-7])
    (folder / "text.onnx").write_text("this is text\n", encoding="utf-8")
    (folder / "model.py").write_text("def model(): ...\ndef inputs(): ...\n", encoding="utf-8")
    np.savez(folder / "wrong.npz", z=np.ones(3))
    done = cli("build", *args, "-o", "bundle")
    assert done.code == code
    assert said in done.error
    assert not (folder / "bundle").exists()


def test_an_operator_that_nothing_runs(cli, folder: Path) -> None:
    nodes = [Node("NoSuchOp", ["x"], ["y"], domain="nobody", name="odd")]
    domains = [helper.make_opsetid("nobody", 1)]
    save(folder / "odd.onnx", nodes, [info("x", [2])], [info("y", [2])], domains=domains)
    done = cli("build", "odd.onnx", "-o", "bundle")
    assert done.code == 3
    assert "NoSuchOp" in done.error
