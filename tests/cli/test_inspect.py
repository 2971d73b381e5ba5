"""``aotc inspect``: what it tells of a bundle, as text and as a document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commandline import COMPILER, aotc

from aotc.bundle import Description, seal
from aotc.cli.signatures import call_text, print_signature
from aotc.ir.operators import grouped
from aotc.optional import how_to_install
from aotc.signature import Argument, Signature, TensorSpec
from aotc.tree import ConstantLeaf, Dict, Sequence, TensorLeaf


def test_text(cli, folder: Path) -> None:
    done = cli("inspect", "bundle")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("tiny: ort-cpu, level executed") or lines[0].endswith("level executed")
    assert re.fullmatch(r"digest [0-9a-f]{64}", lines[1])
    assert lines[2] == "report bundle/report.html"
    assert re.match(r"built with aotc \S+, .*torch 2", lines[3])
    assert "forward(x) -> {logits: logits}" in lines
    for pattern in (
        r"input +x +float32 +\[batch, 4\]",
        r"output +logits +float32 +\[batch, 3\]",
        r"profile 0: batch 1 to 8 \(opt 2\)",
        r"verified at \d+ sizes: batch 1, 2, .*8",
        r"model\.onnx +portable +\S+ KiB ",
        r"model\.ort-optimised\.onnx +ort-optimised .* this one runs here",
        r"ort-optimised: same onnxruntime \S+ and CPU flags",
        r"parity with eager: (\d+) of \d+ cases equal",
        r"worst: [\d.]+ of the bound; output logits on .*",
        r"accuracy: eager \S+, engine \S+",
        r"fold-batch-norm +\d+ +\d+",
        r"second +\d+ +.*",
        r"all +\d+ +.*",
    ):
        assert re.search(f"^{pattern}", done.out, re.MULTILINE), f"{pattern}\n{done.out}"


def test_document(cli, folder: Path) -> None:
    document = cli("inspect", "bundle", "--json").document("inspect")
    description = json.loads((folder / "bundle/bundle.json").read_text())
    for name in ("name", "target", "level", "digest", "producer", "signature", "verified_sizes", "passes"):
        assert document[name] == description[name]
    assert document["report"] == "bundle/report.html"
    assert document["choice"]["engine"] == "model.ort-optimised.onnx"
    sizes = {engine["file"]: engine["size"] for engine in document["engines"]}
    assert all((folder / "bundle" / file).stat().st_size == size for file, size in sizes.items())
    operators = document["operators"]
    assert sum(sum(counts.values()) for counts in operators["modules"].values()) == sum(
        operators["total"].values()
    )
    assert "first" in operators["modules"]
    assert document["notes"] == []


def test_why_lists_changes_and_refusals_with_their_places(cli, folder: Path) -> None:
    done = cli("inspect", "bundle", "--why", "fold-batch-norm")
    assert done.code == 0, done.err
    entries = json.loads((folder / "bundle/bundle.json").read_text())["passes"]
    (entry,) = [e for e in entries if e["name"].partition("{")[0] == "fold-batch-norm"]
    expected = [f"{entry['name']}: {len(entry['changes'])} changes, {len(entry['refusals'])} refusals"]
    expected += [f"  changed: {change}" for change in entry["changes"]]
    expected += [f"  refused at {r['where']}: {r['reason']}" for r in entry["refusals"]]
    assert entry["changes"] or entry["refusals"]
    assert done.out.splitlines() == expected
    document = cli("inspect", "bundle", "--why", "fold-batch-norm", "--json").document("inspect")
    assert document["passes"] == [entry]


def test_why_of_a_pass_that_did_not_run(cli, folder: Path) -> None:
    done = cli("inspect", "bundle", "--why", "fold-batch-nrom")
    assert done.code == 2
    assert done.error == (
        "error[usage]: no pass 'fold-batch-nrom' ran when this bundle was built\n"
        "  fix: did you mean 'fold-batch-norm'?"
    )


def test_without_the_compiler_only_the_operators_are_missing(folder: Path) -> None:
    done = aotc("inspect", "bundle", cwd=folder, hidden=COMPILER)
    assert done.returncode == 0, done.stderr
    note = f"note: operators are not shown: onnx is not installed; {how_to_install('build')}"
    assert done.stdout.splitlines()[-1] == note
    assert "parity with eager" in done.stdout


def test_without_a_runtime_it_says_that_none_runs_here(folder: Path) -> None:
    done = aotc("inspect", "bundle", cwd=folder, hidden=("onnxruntime",))
    assert done.returncode == 0, done.stderr
    assert "none runs here: the package 'onnxruntime' is not installed\n" in done.stdout


def test_every_byte_is_verified_first(cli, folder: Path) -> None:
    path = folder / "bundle/parity.json"
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))
    done = cli("inspect", "bundle")
    assert done.code == 4
    assert done.out == ""
    assert done.error.startswith("error[integrity]: the file 'parity.json' was changed: its digest is ")
    assert done.error.endswith("\n  where: bundle")


def test_names_from_a_bundle_do_not_steer_the_terminal(cli, folder: Path) -> None:
    path = folder / "bundle/bundle.json"
    content = json.loads(path.read_text())
    content["name"] = "evil\x1b[2J\u202e[bold]"
    del content["digest"]
    contents = Description.model_validate({**content, "digest": "0" * 64})
    path.write_bytes(seal(contents).to_json())
    done = cli("inspect", "bundle")
    assert done.code == 0, done.err
    assert done.out.startswith("evil?[2J?[bold]: ort-cpu")
    assert "\x1b" not in cli("inspect", "bundle", "--json").out


def spec(name: str) -> TensorSpec:
    return TensorSpec(name=name, dtype="float32", shape=(1,))


def test_nesting_is_written_as_python_writes_it() -> None:
    x, y, z = (TensorLeaf(name=name) for name in ("x", "s.a", "s.b"))
    signature = Signature(
        arguments=(
            Argument(name="x", kind="positional", tree=x),
            Argument(name="flag", kind="positional", tree=ConstantLeaf(value=None)),
            Argument(name="rest", kind="variadic", tree=Sequence(kind="tuple", items=())),
            Argument(
                name="s", kind="keyword", tree=Dict(kind="record", type="State", entries=(("a", y), ("b", z)))
            ),
        ),
        inputs=(spec("x"), spec("s.a"), spec("s.b")),
        outputs=(spec("u"), spec("v")),
        result=Sequence(
            kind="list",
            items=(
                Sequence(kind="tuple", items=(TensorLeaf(name="u"),)),
                Dict(kind="dict", entries=(("v", TensorLeaf(name="v")),)),
            ),
        ),
    )
    assert call_text(signature) == (
        "forward(x, flag=None, *rest=(), s=State(a: s.a, b: s.b)) -> [(u,), {v: v}]"
    )


def test_state_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    signature = Signature(
        arguments=(Argument(name="h", kind="positional", tree=TensorLeaf(name="h")),),
        inputs=(spec("h"),),
        outputs=(spec("output"),),
        result=TensorLeaf(name="output"),
        state={"h": "output"},
    )
    print_signature(signature, ())
    assert "state: h is output of the call before" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (9, {"": 1, "net": 1, "net.a.x": 2, "net.a.y": 3, "net.b": 4}),
        (4, {"": 1, "net": 1, "net.a": 5, "net.b": 4}),
        (1, {"": 1, "net": 10}),
    ],
)
def test_operators_are_grouped_at_the_depth_that_fits(most: int, expected: dict[str, int]) -> None:
    counts = {"": 1, "net": 1, "net.a.x": 2, "net.a.y": 3, "net.b": 4}
    found = grouped({path: {"Add": count} for path, count in counts.items()}, most)
    assert {path: counts["Add"] for path, counts in found.items()} == expected
