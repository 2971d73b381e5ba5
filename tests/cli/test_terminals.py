"""Where the output goes must not matter: colours, widths, encodings, closed streams, no home."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import aotc, argv

from aotc.cli import output
from aotc.cli.output import StageProgress
from aotc.cli.verdicts import show_verdict
from aotc.parity.metrics import OutputFigures
from aotc.parity.verdict import CaseVerdict, EngineVerdict, PartsVerdict, Verdict


def on_terminal(*args: str, cwd: Path, **env: str) -> tuple[int, str]:
    """Run on a pseudo-terminal and return exit code and everything that was shown."""
    inner, outer = pty.openpty()
    process = subprocess.Popen(
        argv(*args), cwd=cwd, env={**os.environ, **env}, stdin=outer, stdout=outer, stderr=outer
    )
    os.close(outer)
    shown = b""
    while True:
        try:
            piece = os.read(inner, 4096)
        except OSError:  # Linux says EIO when the other side is closed
            break
        if not piece:
            break
        shown += piece
    os.close(inner)
    return process.wait(timeout=60), shown.decode()


def test_bars_only_on_a_terminal_and_not_in_ci(folder: Path) -> None:
    code, shown = on_terminal("check", "bundle", cwd=folder, TERM="xterm", CI="")
    assert code == 0
    assert "\x1b[?25l" in shown
    assert re.search(r"check .*━━━━", shown)
    for env in ({"CI": "true"}, {"TERM": "dumb", "CI": ""}):
        code, shown = on_terminal("check", "bundle", cwd=folder, **{"TERM": "xterm", **env})
        assert code == 0
        assert "\x1b" not in shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert re.search(r"^load +[\d.]+ s\r\ncheck +[\d.]+ s\r\n", shown)


def test_a_log_has_a_line_for_each_stage_and_says_where_it_stopped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contextlib.suppress(KeyError), StageProgress() as progress:
        progress("load", "")
        progress("check", "")
        progress("check", "example \x1b[31m")
        raise KeyError
    assert re.fullmatch(r"load +0\.0 s\ncheck +0\.0 s  failed\n", capsys.readouterr().err)
    assert list(progress.seconds) == ["load", "check"]


def figures(name: str) -> OutputFigures:
    known = {"max_abs": 2.49e-7, "ratio": 0.23, "cosine": 1.0, "top1": 1.0, "kl": 3.2e-15}
    return OutputFigures(name=name, passed=True, atol=1.08e-6, rtol=0.01, tolerance="derived", **known)


@pytest.mark.parametrize(
    "names",
    [["logits"], ["logits", "encoder_hidden_states_of_the_last_layer_after_the_final_norm_and_dropout_7"]],
)
@pytest.mark.parametrize("width", [80, 120])
def test_a_summary_fits_whatever_the_outputs_are_called(
    names: list[str], width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_PIPE_WIDTH", width)
    case = CaseVerdict(label="example", sizes={}, outcome="equal", outputs=tuple(map(figures, names)))
    engines = tuple(EngineVerdict(engine=f"{name}.onnx", cases=(case,)) for name in ("model", "optimised"))
    verdict = Verdict(engines=engines, environment={})
    stages = {f"stage{i}": 1.25 * i for i in range(12)}
    show_verdict(verdict, as_json=False, seconds=stages, sizes={"model.onnx": 2**21})
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if line.endswith("pass")]
    assert len(rows) == len(names)
    assert all("2.49e-07   1.08e-06 + 0.01 rel" in row and "0.23" in row for row in rows)
    assert lines[0].split()[:1] == ["output"]
    assert ("cosine" in lines[0]) == (width == 120)
    column = "".join(line.split("  ")[0] for line in lines)
    assert all(name in column for name in names)
    assert re.search(r"^engines +model.onnx, optimised.onnx", out, re.MULTILINE)
    assert re.search(r"^seconds +stage0 0.0, stage1 1.2, ", out, re.MULTILINE)
    assert re.search(r"^sizes +model.onnx 2.0 MiB", out, re.MULTILINE)


def test_the_summary_of_parts_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    refused = CaseVerdict(label="ids holds -1", sizes={}, outcome="both raise")
    case = CaseVerdict(label="example", sizes={}, outcome="equal", outputs=(figures("y"),))
    one = Verdict(
        reference="the untouched file",
        engines=(EngineVerdict(engine="model.onnx", cases=(case, refused)),),
        environment={},
    )
    show_verdict(PartsVerdict(parts={"encoder": one, "decoder": one}), as_json=False)
    out = capsys.readouterr().out
    assert re.search(r"^encoder\.y .*pass\s+decoder\.y .*pass$", out, re.MULTILINE)
    assert "encoder: 1 x refused by the untouched file and engine alike: ids holds -1\n" in out
    assert out.count("worst/bound") == 1
    assert "eager" not in out


def test_no_colour_where_it_is_not_wanted(folder: Path) -> None:
    code, shown = on_terminal("inspect", "bundle", cwd=folder, TERM="xterm-256color", NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in shown
    assert "\x1b" not in aotc("inspect", "bundle", cwd=folder).stdout


@pytest.mark.parametrize("command", ["inspect", "check", "passes", "doctor"])
def test_a_terminal_of_20_columns_loses_nothing(folder: Path, command: str) -> None:
    args = [command, "bundle"] if command in ("inspect", "check") else [command]
    code, shown = on_terminal(*args, cwd=folder, COLUMNS="20", LINES="10", TERM="xterm", CI="1")
    assert code == 0
    wanted = {
        "inspect": ["engine file: model.ort-optimised.onnx", "this one runs here", "operators: "],
        "check": ["worst/bound: ", "engines", "model.ort-optimised.onnx", "seconds"],
        "passes": ["pass: fold-constants"],
        "doctor": ["onnxruntime"],
    }
    for text in wanted[command]:
        assert "".join(text.split()) in "".join(shown.split()), shown


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
    ],
)
def test_a_locale_without_utf8(folder: Path, env: dict[str, str]) -> None:
    (folder / "bundle").rename(folder / "bündel")
    for args in (["inspect", "bündel"], ["check", "bündel"]):
        done = aotc(*args, cwd=folder, env=env)
        assert done.returncode == 0, done.stderr
    document = aotc("inspect", "bündel", "--json", cwd=folder, env=env)
    assert json.loads(document.stdout)["name"] == "tiny"
    missing = aotc("run", "löffel", "--random", cwd=folder, env=env)
    assert missing.returncode == 2
    assert missing.stderr.startswith("error[bundle]: there is no bundle at l")


def test_a_path_that_is_not_text(folder: Path) -> None:
    name = os.fsdecode(b"b\xff")
    (folder / "bundle").rename(folder / name)
    done = aotc("inspect", name, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bundle"] == "b\\xff"
    assert aotc("run", name, "--random", cwd=folder).returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams(folder: Path, closed: str) -> None:
    script = f'"$0" run bundle --random --out out.npz {closed}'
    done = subprocess.run(
        ["sh", "-c", script, argv()[0]], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "out.npz").read_bytes()[:2] == b"PK"


@pytest.mark.parametrize("args", [["passes"], ["passes", "fold-batch-norm"], ["doctor"]])
def test_every_listing_is_text_or_one_document(cli, folder: Path, args: list[str]) -> None:
    text = cli(*args)
    assert text.code == 0
    assert text.out
    assert cli(*args, "--json").document(args[0])


def test_passes_are_listed_in_their_order(cli, folder: Path) -> None:
    from aotc.pipeline import CAST, LOWER, OPTIMISE, RAISE

    document = cli("passes", "--json").document("passes")
    assert [entry["text"] for entry in document["passes"]] == [
        str(each) for passes in (RAISE, OPTIMISE, *LOWER.values(), *CAST.values()) for each in passes
    ]
    (one,) = cli("passes", "fold-batch-norm", "--json").document("passes")["passes"]
    assert set(one["sections"]) == {"Rewrites", "Requires", "Refuses when", "Numerics"}
    done = cli("passes", "fold-batchnorm")
    assert done.code == 2
    assert (
        done.error
        == "error[usage]: there is no pass 'fold-batchnorm'\n  fix: did you mean 'fold-batch-norm'?"
    )


def test_doctor_says_what_to_install(cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("onnxruntime", "onnxscript", "onnxruntime-gpu"):
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    done = cli("doctor")
    assert done.code == 0
    assert 'target ort-cpu: not available; pip install "aotc[cpu]"\n' in done.out
    assert 'problem: cannot load and run bundles: onnxruntime missing; pip install "aotc[cpu]"\n' in done.out
    fix = 'pip install torch==2.13.0, then pip install "aotc[build]"'
    assert f"problem: cannot build bundles: onnxscript missing; {fix}\n" in done.out
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0" if "onnx" in name else real(name))
    assert "onnxruntime and onnxruntime-gpu are both installed" in cli("doctor").out


@pytest.mark.parametrize(
    ("versions", "fault"),
    [
        ({"timm": "1.0.31"}, "torchvision missing"),
        (
            {"timm": "1.0.31", "torchvision": "0.29.1+cpu", "torch": "2.13.0+cpu"},
            "torchvision 0.29.1+cpu is for torch 2.14.1, and torch is 2.13.0",
        ),
        ({"timm": "1.0.31", "torchvision": "0.29.1", "torch": "2.14.1+cu130"}, None),
        ({"torch": "2.13.0"}, None),
    ],
)
def test_doctor_knows_which_torchvision_timm_needs(
    cli, folder: Path, monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], fault: str | None
) -> None:
    import importlib.metadata

    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["numpy", "torch==2.14.1", "pillow>=5.3"])
    shown = [line for line in cli("doctor").out.splitlines() if "timm folders" in line]
    fix = 'pip install torch==2.14.1 torchvision==0.29.1, then pip install "aotc[timm]"'
    assert shown == ([f"problem: cannot read timm folders: {fault}; {fix}"] if fault else [])


def test_the_version(folder: Path) -> None:
    done = aotc("--version", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "aotc, version 0.1.0\n")
    assert sys.version_info >= (3, 11)
