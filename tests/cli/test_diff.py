"""``aotc diff``: text, document, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commandline import COMPILER, aotc, error_of
from parts_model import PARTS

from aotc.diff import SECTIONS


@pytest.fixture(scope="module")
def other(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle of the same model with other weights in its first layer."""
    folder = tmp_path_factory.mktemp("other") / "tiny"
    folder.mkdir()
    text = (tiny / "model.py").read_text()
    changed = text.replace("    def forward", "        self.first.bias.data += 1\n\n    def forward")
    assert changed != text
    (folder / "model.py").write_text(changed)
    done = aotc("build", "model.py", "-o", "bundle", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bundle"


def test_equal_bundles_are_one_line(cli, folder: Path) -> None:
    done = cli("diff", "bundle", "bundle", "--fail-on", ",".join(SECTIONS))
    assert done.code == 0
    assert re.fullmatch(r"the same: digest [0-9a-f]{64}\n", done.out)
    document = cli("diff", "bundle", "bundle", "--json").document("diff")
    assert document["same"]
    assert document["diff"]["changed"] == []


def test_a_bundle_with_other_weights(cli, folder: Path, other: Path) -> None:
    done = cli("diff", "bundle", other)
    assert done.code == 0, done.err
    assert re.search(r"^first\.bias +changed +float32 \[8\] +float32 \[8\]", done.out, re.MULTILINE)
    assert "weights: 7 equal, 1 not" in done.out
    assert re.search("^changed: weights.*; the same: signature, ops, precision.*$", done.out, re.MULTILINE)
    document = cli("diff", "bundle", other, "--json").document("diff")
    assert {w["name"] for w in document["diff"]["weights"] if w["status"] != "equal"} == {"first.bias"}


def test_fail_on_what_changed(cli, folder: Path, other: Path) -> None:
    done = cli("diff", "bundle", other, "--fail-on", "ops, weights,signature")
    assert done.code == 1
    assert done.error == (
        f"error[diff]: changed: weights\n  fix: aotc diff bundle {other} --json lists every difference"
    )
    assert "first.bias" in done.out
    assert cli("diff", "bundle", other, "--fail-on", "signature,ops,precision,producer").code == 0


def test_fail_on_tells_github(cli, folder: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    done = cli("diff", "bundle", other, "--fail-on", "weights", "--github", "--json")
    assert done.code == 1
    assert done.document("diff")["diff"]["changed"][0] == "weights"
    assert f"\n::error title=aotc diff bundle {other}%3A diff::error[diff]: changed: weights%0A" in done.err
    assert (folder / "summary.md").read_text().startswith("### aotc diff bundle ")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("wieghts", "there is no 'wieghts' to compare; did you mean 'weights'?"),
        ("signature,,ops", "there is no '' to compare; there are signature, ops, weights, precision, "),
        ("", "there is no '' to compare"),
    ],
)
def test_unknown_names_are_usage_errors(cli, folder: Path, names: str, text: str) -> None:
    done = cli("diff", "bundle", "bundle", "--fail-on", names)
    assert done.code == 2
    assert done.error.startswith("error[usage]: ")
    assert text in done.error


def test_parts_have_a_diff_each(cli, folder: Path) -> None:
    Path("parts.py").write_text(PARTS)
    Path("changed.py").write_text(PARTS.replace("torch.tanh(self.mix", "torch.relu(self.mix"))
    for name in ("parts", "changed"):
        done = cli("build", f"{name}.py", "-o", name)
        assert done.code == 0, done.err
    done = cli("diff", "parts", "changed", "--fail-on", "ops")
    assert done.code == 1
    assert (
        re.search(r"^part decoder: digest \w+ and \w+$", done.out, re.MULTILINE)
        or "part decoder: the same" in done.out
    )
    assert re.search(r"Tanh +1 +0", done.out)
    document = cli("diff", "parts", "changed", "--json").document("diff")
    assert set(document["diff"]["parts"]) == {"encoder", "decoder"}
    done = cli("diff", "parts", "bundle")
    assert done.code == 2
    assert done.error == (
        "error[parts]: the bundle parts has the parts decoder, encoder, bundle has none\n"
        "  fix: name a part: parts/decoder or parts/encoder"
    )


def test_a_damaged_bundle_is_refused(cli, folder: Path, other: Path) -> None:
    (folder / "bundle/more").write_bytes(b"?")
    assert cli("diff", "bundle", other).code == 4


def test_without_onnx_what_cannot_be_told_is_an_error(folder: Path, other: Path) -> None:
    done = aotc("diff", "bundle", other, "--fail-on", "signature", cwd=folder, hidden=COMPILER)
    assert done.returncode == 0, done.stderr
    assert "note: operators, and weights inside the graph file, are not compared" in done.stdout
    done = aotc("diff", "bundle", other, "--fail-on", "ops", cwd=folder, hidden=COMPILER)
    assert done.returncode == 5
    assert error_of(done.stderr).startswith(
        "error[environment]: cannot tell whether ops changed: onnx is not installed\n  fix: pip install torch"
    )
    same = aotc("diff", "bundle", "bundle", "--fail-on", "ops", cwd=folder, hidden=COMPILER)
    assert same.returncode == 0
