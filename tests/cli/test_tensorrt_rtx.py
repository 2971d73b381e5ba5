"""The exit codes of the target tensorrt-rtx, and that every message tells the level."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from rtx import as_rtx_bundle, needs_rtx

TARGET = ["--target", "tensorrt-rtx:sm_86"]


@needs_rtx
def test_5_without_accept_nothing_is_published(cli, folder: Path) -> None:
    done = cli("build", "model.py", *TARGET, "-o", "new", "--junit", "new.xml")
    assert done.code == 5
    assert done.out == ""
    assert done.error.startswith("error[unexecuted]: the engine for tensorrt-rtx:sm_86 was compiled and ")
    assert "only its graph was verified against eager" in done.error
    assert "\n  fix: --accept graph publishes it, at level graph" in done.error
    assert not list(folder.glob("new*/"))
    junit = (folder / "new.xml").read_text(encoding="utf-8")
    assert 'errors="1"' in junit
    assert 'name="level" value="graph"' in junit


@needs_rtx
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_0_with_accept_and_everything_says_graph(cli, folder: Path, precision: str) -> None:
    done = cli("build", "model.py", *TARGET, "--precision", precision, "--accept", "graph", "-o", "new")
    assert done.code == 0, done.err
    last = "verified at level graph against eager, the engine was never run: new (digest "
    assert done.out.splitlines()[-2].startswith(last)
    assert "graphs    model.onnx" in done.out
    assert ", graph " in next(line for line in done.out.splitlines() if line.startswith("accuracy: "))
    document = json.loads((folder / "new/bundle.json").read_text(encoding="utf-8"))
    assert (document["level"], document["target"]) == ("graph", "tensorrt-rtx:sm_86")
    assert document["options"]["precision"] == precision
    kinds = ["portable", *(["rounded"] if precision == "fp16" else []), "tensorrt-rtx"]
    assert [engine["kind"] for engine in document["engines"]] == kinds
    page = (folder / "new/report.html").read_text(encoding="utf-8")
    assert "Graph verified against eager; the engine was never run" in page
    assert f"--target tensorrt-rtx:sm_86 -o new{' --precision fp16' * (precision == 'fp16')} --accept" in page

    shown = cli("inspect", "new").out
    assert shown.startswith(f"tiny: tensorrt-rtx:sm_86, {precision}, level graph\n") or (
        f": tensorrt-rtx:sm_86, {precision}, level graph\n" in shown
    )
    assert "none runs here: the bundle is for tensorrt-rtx:sm_86; this runtime runs ort-cpu" in shown
    assert "parity of the graph with eager" in shown
    engines = cli("inspect", "new", "--json").document("inspect")["engines"]
    assert engines[-1]["requires"]["architectures"] == ["sm_86"]

    for source in ([], ["model.py"]):
        checked = cli("check", "new", *source)
        assert checked.code == 5
        assert checked.error.startswith("error[unexecuted]: only the graph was checked (level graph), and")
        assert "verified" not in checked.out
    assert cli("run", "new", "--random").code == 4


def test_a_check_leaves_no_green_file_and_no_vouching_record(cli, folder: Path) -> None:
    as_rtx_bundle(folder / "bundle", folder / "device")
    done = cli("check", "device", "--junit", "device.xml", "--json")
    assert done.code == 5
    verdict = done.document("check")["verdict"]
    assert (verdict["level"], verdict["engines"][0]["engine"]) == ("graph", "model.onnx")
    assert 'errors="1"' in (folder / "device.xml").read_text(encoding="utf-8")
    assert json.loads((folder / "device.checked.json").read_text(encoding="utf-8"))["level"] == "graph"
    refused = cli("run", "device", "--random")
    assert refused.code == 4
    assert refused.error.startswith("error[compatibility]: the engine of this bundle was never run")


def test_a_graph_that_differs_is_a_negative_verdict(cli, folder: Path) -> None:
    as_rtx_bundle(folder / "bundle", folder / "device")
    text = (folder / "model.py").read_text(encoding="utf-8").replace("manual_seed(0)", "manual_seed(2)")
    (folder / "other.py").write_text(text, encoding="utf-8")
    assert cli("check", "device", "other.py").code == 1


def test_2_an_architecture_that_is_not_compiled_for(cli, folder: Path) -> None:
    done = cli("build", "model.py", "--target", "tensorrt-rtx:sm_90", "-o", "new")
    assert done.code == 2
    assert "known: sm_75, sm_80, sm_86, sm_89, sm_120, sm_121" in done.error


@needs_rtx
def test_2_a_dim_without_a_profile(cli, folder: Path, source) -> None:
    name = source(('profiles = [{"batch": (1, 2, 8)}]', ""))
    done = cli("build", name, *TARGET, "-o", "new")
    assert done.code == 2
    assert done.error.startswith("error[profile]: the dim 'batch' has no profile")
    assert 'fix: profiles = [{"batch": (1, 8, 64)}]' in done.error


@needs_rtx
def test_3_an_operator_that_tensorrt_does_not_have(cli, folder: Path, source) -> None:
    det = '{"logits": torch.linalg.det(x[:, None, :] * x[:, :, None] + 9 * torch.eye(4))}'
    name = source(('{"logits": self.second(self.norm(torch.relu(self.first(x))))}', det))
    line = next(
        i for i, text in enumerate((folder / name).read_text().splitlines(), 1) if "linalg.det" in text
    )
    done = cli("build", name, *TARGET, "--accept", "graph", "-o", "new")
    assert done.code == 3, done.err
    assert done.error.startswith("error[tensorrt-rtx]: TensorRT-RTX cannot parse this graph: Det '")
    assert f"where: {name}:{line}, Det '" in done.error
    assert not (folder / "new").exists()


def test_5_without_the_package_it_says_what_to_install(
    cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)  # type: ignore[arg-type]
    done = cli("build", "model.py", *TARGET, "-o", "new")
    assert done.code == 5
    assert done.error == (
        "error[environment]: the package 'tensorrt_rtx' is not installed\n"
        '  fix: pip install "aotc[rtx]", which brings tensorrt-rtx-cu13'
    )


def test_the_doctor_has_a_line_for_it(cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    real = importlib.metadata.version

    def version(name: str, installed: bool) -> str:
        if name == "tensorrt-rtx-cu13":
            if installed:
                return "1.7.1.116"
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    for installed, text in (
        (True, "compiles here; engines are not run (level graph)"),
        (False, "not available;"),
    ):
        monkeypatch.setattr(importlib.metadata, "version", lambda name, i=installed: version(name, i))
        assert f"target tensorrt-rtx: {text}" in cli("doctor").out
        assert cli("doctor", "--json").document("doctor")["targets"]["tensorrt-rtx"] is installed
