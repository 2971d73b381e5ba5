"""Every exit code in a real process and a real situation; every error with what, where and the fix."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commandline import BLOCK, COMPILER, aotc, argv, error_of

from aotc.optional import how_to_install

HIDDEN_MAIN = "from aotc.cli.main import main; main()"


def test_0_done_and_verified(folder: Path) -> None:
    done = aotc("check", "bundle", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.endswith("verified on golden inputs\n")


def test_1_a_planted_mismatch_publishes_nothing_and_saves_the_inputs(cli, folder: Path, source) -> None:
    name = source(("self.second(", "(1.5 if torch.compiler.is_exporting() else 1) * self.second("))
    done = aotc("build", name, "-o", "new", "--json", cwd=folder)
    assert done.returncode == 1
    error = error_of(done.stderr)
    assert error.startswith("error[parity]: ")
    assert "times the bound (model" in error
    assert error.endswith(
        "\n  where: inputs saved to new.failed.npz; report: new.failed.html"
        f"\n  fix: aotc check {name} --inputs new.failed.npz --bisect"
    )
    page = (folder / "new.failed.html").read_text(encoding="utf-8")
    assert "Differs from eager" in page
    assert f"aotc check {name} --inputs new.failed.npz" in page
    document = json.loads(done.stdout)
    assert document["passed"] is False
    assert document["bundle"] is None
    names = {"bundle", "model.py", name, "new.failed.npz", "new.failed.html"}
    assert {p.name for p in folder.iterdir()} - {"__pycache__"} == names
    replay = cli("check", name, "--inputs", "new.failed.npz")
    assert replay.code == 1
    assert replay.error.startswith("error[parity]: ")


def test_1_another_accuracy(cli, folder: Path, source) -> None:
    counts = "\n\ncalls = []\n\n\ndef accuracy(run):\n    calls.append(1)\n"
    name = source(end=f"{counts}    return min(len(calls), 2)\n")
    done = cli("build", name, "-o", "new")
    assert done.code == 1
    assert done.error.startswith(
        "error[parity]: accuracy() is 2 on the engine and 1 on eager: 1 apart, and 0.0001 is allowed\n"
    )
    assert not (folder / "new").exists()


def test_1_an_accuracy_that_is_not_a_number_is_null_in_the_document(cli, folder: Path, source) -> None:
    name = source(end="\n\ndef accuracy(run):\n    return float('nan')\n")
    done = cli("build", name, "-o", "new", "--json")
    assert done.code in (1, 2)
    if done.code == 1:
        assert done.document("build")["verdict"]["accuracy"]["eager"] is None


def test_2_usage(folder: Path) -> None:
    done = aotc("build", "model.py", cwd=folder)
    assert done.returncode == 2
    assert error_of(done.stderr) == "error[usage]: Missing option '-o' / '--out'.\n  fix: aotc build --help"
    assert done.stdout == ""


def test_2_an_unknown_command(folder: Path) -> None:
    done = aotc("biuld", cwd=folder)
    assert done.returncode == 2
    assert error_of(done.stderr) == (
        "error[usage]: there is no command 'biuld'\n  fix: did you mean 'aotc build'?"
    )


def test_2_without_a_command_it_shows_the_help(folder: Path) -> None:
    done = aotc(cwd=folder)
    assert done.returncode == 2
    assert "Usage: aotc" in done.stderr


def test_3_a_refused_model_names_the_line(folder: Path, source) -> None:
    branch = 'if x.sum() > 0:\n            x = x + 1\n        return {"logits"'
    name = source(('return {"logits"', branch))
    line = (folder / name).read_text().splitlines().index("        if x.sum() > 0:") + 1
    done = aotc("build", name, "-o", "new", "--json", cwd=folder)
    assert done.returncode == 3
    error = error_of(done.stderr)
    assert error.startswith("error[data-dependent]: ")
    assert f"\n  where: {name}:{line}" in error
    assert "\n  fix: use torch.where or torch.cond" in error
    document = json.loads(done.stdout)
    assert document["error"]["name"] == "data-dependent"
    assert document["error"]["exit_code"] == 3
    assert not (folder / "new").exists()


@pytest.mark.parametrize(
    "file", ["model.onnx", "golden/000.inputs.npz", "golden/000.outputs.npz", "report.html"]
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_4_a_flipped_byte(cli, folder: Path, file: str, command: str) -> None:
    path = folder / "bundle" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    done = cli(command, "bundle", *(["--random"] if command == "run" else []))
    assert done.code == 4
    assert done.out == ""
    assert done.error.startswith(f"error[integrity]: the file '{file}' was changed: its digest is ")
    assert done.error.splitlines()[1] == "  where: bundle"


def test_4_in_a_process_of_its_own_with_a_document(folder: Path) -> None:
    path = folder / "bundle/model.onnx"
    path.write_bytes(path.read_bytes() + b"\0")
    size = path.stat().st_size
    done = aotc("check", "bundle", "--json", cwd=folder)
    assert done.returncode == 4
    document = json.loads(done.stdout)
    assert document["error"]["message"] == f"the file 'model.onnx' has {size} bytes, not {size - 1}"
    assert document["error"]["where"] == "bundle"


@pytest.mark.parametrize(
    ("hidden", "args", "missing", "extra"),
    [
        ("torch", ["build", "model.py", "-o", "new"], "torch", "build"),
        ("onnxscript", ["build", "model.py", "-o", "new"], "onnxscript", "build"),
        ("onnxruntime", ["build", "model.py", "-o", "new"], "onnxruntime", "cpu"),
        ("torch", ["check", "bundle", "model.py"], "torch", "build"),
        ("onnx_ir", ["passes"], "onnx_ir", "build"),
        ("onnxruntime", ["check", "bundle"], "onnxruntime", "cpu"),
        ("onnxruntime", ["run", "bundle", "--random"], "onnxruntime", "cpu"),
        ("onnxruntime", ["bench", "bundle"], "onnxruntime", "cpu"),
    ],
)
def test_5_a_missing_package(folder: Path, hidden: str, args: list[str], missing: str, extra: str) -> None:
    done = aotc(*args, cwd=folder, hidden=(hidden,))
    assert done.returncode == 5
    assert error_of(done.stderr) == (
        f"error[environment]: the package '{missing}' is not installed\n  fix: {how_to_install(extra)}"
    )


@pytest.mark.parametrize("args", [["check", "bundle"], ["run", "bundle", "--random"], ["doctor"]])
def test_a_serving_machine_needs_no_compiler(folder: Path, args: list[str]) -> None:
    done = aotc(*args, cwd=folder, hidden=COMPILER)
    assert done.returncode == 0, done.stderr


BUG = """
import aotc.pipeline
def broken(*_, **__):
    raise ValueError("off by one in \\x1b[31m 'x'")
aotc.pipeline.build = broken
"""


def test_70_a_bug_has_a_report_file(folder: Path, tmp_path: Path) -> None:
    script = BLOCK.format(blocked=("nothing",)) + BUG + HIDDEN_MAIN
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, "build", "model.py", "-o", "new", "--json"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 70
    (report,) = temporary.glob("aotc-report-*.txt")
    what, where, fix = done.stderr[done.stderr.find("error[") :].splitlines()
    assert what == "error[internal]: ValueError: off by one in ?[31m 'x'"
    assert where.startswith("  where: <string>:")
    assert fix == f"  fix: this is a bug of aotc, please report it with {report}"
    assert "Traceback" in report.read_text()
    assert "aotc 0.1.0, Python " in report.read_text()
    assert json.loads(done.stdout)["error"]["exit_code"] == 70


def test_74_a_file_in_the_place_of_the_parent_folder(cli, folder: Path) -> None:
    done = cli("build", "model.py", "-o", "model.py/bundle")
    assert done.code == 74
    assert done.error == "error[storage]: cannot build in model.py: File exists"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_74_a_folder_without_permission(folder: Path) -> None:
    locked = folder / "locked"
    locked.mkdir(mode=0o500)
    done = aotc("build", "model.py", "-o", "locked/bundle", cwd=folder)
    assert done.returncode == 74
    assert "Permission denied" in error_of(done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_74_a_full_disk(cli, folder: Path) -> None:
    np.savez(folder / "in.npz", x=np.ones((3, 4), np.float32))
    done = cli("run", "bundle", "--input", "in.npz", "--out", "/dev/full")
    assert done.code == 74
    assert done.error.startswith("error[storage]: No space left on device")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="mounting a tmpfs needs root")
def test_74_a_full_destination_leaves_nothing(folder: Path) -> None:
    small = folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        done = aotc("build", "model.py", "-o", "small/bundle", cwd=folder)
        left = list(small.iterdir())
    finally:
        subprocess.run(["umount", small], check=True)
    assert done.returncode == 74
    error = error_of(done.stderr)
    assert error.startswith("error[storage]: cannot write the new bundle small/bundle: No space left")
    assert "\n  fix: free space on the file system of " in error
    assert [p for p in left if p.name != ".aotc.lock"] == []


@pytest.mark.parametrize("args", [["inspect", "bundle"], ["inspect", "bundle", "--json"], ["doctor"]])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_74_output_that_cannot_be_written(folder: Path, args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            argv(*args), cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 74
    assert done.stderr == "error[storage]: cannot print the result: No space left on device\n"


def test_74_a_reader_that_went_away(folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = argv("inspect", "bundle")
        done = subprocess.run(
            command, cwd=folder, stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(write)
    assert done.returncode == 74
    assert done.stderr == ""
