"""Targets as text: what is taken, in which order, and what is refused with what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotc.config import load_options
from aotc.errors import UsageError
from aotc.target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("ort-cpu", Target("ort-cpu")),
        ("tensorrt-rtx:sm_86", Target("tensorrt-rtx", ("sm_86",))),
        ("tensorrt-rtx:sm_120, sm_75,sm_86", Target("tensorrt-rtx", ("sm_75", "sm_86", "sm_120"))),
    ],
)
def test_a_target_is_its_name_and_its_architectures_in_one_order(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target
    assert target.executed == (target.name == "ort-cpu")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tensorrt", "there is no target 'tensorrt'; targets: ort-cpu, tensorrt-rtx"),
        ("", "there is no target ''"),
        ("ort-cpu:avx2", "the target ort-cpu has no architectures; write ort-cpu"),
        ("ort-cpu:", "the target ort-cpu has no architectures"),
        (
            "tensorrt-rtx",
            "the target tensorrt-rtx needs architectures, such as tensorrt-rtx:sm_86; known:",
        ),
        ("tensorrt-rtx:", "the target tensorrt-rtx needs architectures"),
        (
            "tensorrt-rtx:sm_87",
            "cannot compile for 'sm_87': unknown architecture; known: sm_75, sm_80,",
        ),
        ("tensorrt-rtx:sm_86,", "cannot compile for '': unknown architecture"),
        ("tensorrt-rtx:sm_90", "cannot compile for 'sm_90': TensorRT-RTX compiles for no data centre GPU"),
        ("tensorrt-rtx:SM_86", "cannot compile for 'SM_86'"),
    ],
)
def test_what_is_no_target_is_refused_with_what_there_is(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_target(text)
    with pytest.raises(UsageError, match=reason) as caught:
        load_options({"target": text}, tmp_path)
    assert caught.value.exit_code == 2


def test_the_config_file_and_the_environment_may_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aotc.toml").write_text('target = "tensorrt-rtx:sm_89,sm_86"\nprecision = "fp16"\n')
    options = load_options({"accept": "graph"}, tmp_path)
    assert (options.target, options.precision, options.accept) == (
        "tensorrt-rtx:sm_86,sm_89",
        "fp16",
        "graph",
    )
    monkeypatch.setenv("AOTC_TARGET", "ort-cpu")
    assert load_options({}, tmp_path).target == "ort-cpu"
