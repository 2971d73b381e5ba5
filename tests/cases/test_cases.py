"""Small models made from faults that people meet with today's tools: each builds, or is refused by name.

A case file is a source file. Besides that it says in ``source`` where the fault was reported, in ``symptom``
what was seen, in ``right`` what is right, and in ``expect`` what a build must do: ``parity``, or ``error:``
and a part of the refusal's message. Files named ``NNN_b`` and ``NNN_c`` are of the same kind as ``NNN``, with
other shapes, dtypes and spellings.
"""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest
import torch

from aotc import pipeline
from aotc.config import Options
from aotc.errors import RefusedError
from aotc.export.source import load_source
from aotc.sources import open_source

FOLDER = Path(__file__).parent
HEAVY = {"067_weights_over_2gib"}
"""2.2 GiB of weights."""
TAMPERED = "068_external_data_traversal"
"""What is refused here is the saved ONNX file, once tampered with: the model itself builds."""


def _parameters() -> list[object]:
    """Return the cases; further ones of a kind are left to the full run, where time is no matter."""
    marks = {True: pytest.mark.full, False: ()}
    paths = sorted(FOLDER.glob("[0-9]*.py"))
    full = {path.stem for path in paths if path.stem[3:6] in ("_b_", "_c_")} | HEAVY
    return [pytest.param(path, id=path.stem, marks=marks[path.stem in full]) for path in paths]


def expected(path: Path) -> str:
    """Return the text of ``expect`` without running the file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "expect":
            return "parity" if path.stem == TAMPERED else str(ast.literal_eval(node.value))
    raise AssertionError(f"{path.name} does not say what it expects")


@pytest.mark.filterwarnings("ignore")  # the models' own: masks, deprecated arguments
@pytest.mark.parametrize("path", _parameters())
def test_case(path: Path, tmp_path: Path) -> None:
    expect = expected(path)
    source, options = load_source(path), Options(threads=1)
    if expect != "parity":
        with pytest.raises(RefusedError) as refused:
            pipeline.build(source, options, tmp_path / "bundle")
        assert expect.removeprefix("error: ") in refused.value.message
        assert refused.value.exit_code == 3
        assert not (tmp_path / "bundle").exists()
        return
    result = pipeline.build(source, options, tmp_path / "bundle")
    assert result.verdict.passed
    outcomes = {case.label: case.outcome for engine in result.verdict.engines for case in engine.cases}
    given = ["example", *(f"more_inputs[{i}]" for i in range(len(source.more_inputs)))]
    assert {outcomes[label] for label in given} == {"equal"}
    assert {outcomes[f"bad_inputs[{i}]"] for i in range(len(source.bad_inputs))} <= {"both raise"}


@pytest.mark.filterwarnings("ignore")  # the case leaves closing the file to the interpreter
@pytest.mark.parametrize("kind", ["dotdot", "absolute", "symlink"])
def test_a_tampered_file(kind: str, tmp_path: Path) -> None:
    case = runpy.run_path(str(FOLDER / f"{TAMPERED}.py"))
    saved = tmp_path / "model" / "net.onnx"
    saved.parent.mkdir()
    torch.onnx.export(case["model"](), case["inputs"](), saved, dynamo=True, external_data=False)
    case["tamper"](str(saved), kind)
    with pytest.raises(RefusedError) as refused:
        pipeline.build(open_source(saved), Options(threads=1), tmp_path / "bundle")
    assert case["expect"].removeprefix("error: ") in refused.value.message
    assert refused.value.exit_code == 3


def test_every_kind_has_a_source_of_its_own() -> None:
    for path in sorted(FOLDER.glob("[0-9]*.py")):
        assert 'source = "https://github.com/' in path.read_text(encoding="utf-8"), path.name
