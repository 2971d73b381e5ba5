"""Options: flag, environment, file, default, in that order; nothing misspelt is ignored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aotc.config import Bound, load_options
from aotc.errors import UsageError


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in os.environ:
        if key.startswith("AOTC_"):
            monkeypatch.delenv(key)


def test_defaults(tmp_path: Path) -> None:
    options = load_options({}, tmp_path)
    assert (options.target, options.threads, options.validate_passes) == ("ort-cpu", None, "region")
    assert (options.disable, options.dump_dir, options.tolerance, options.seed) == ((), None, {}, 0)


def test_the_order_of_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aotc.toml").write_text("threads = 1\nseed = 1\nvalidate = 'each'\n")
    monkeypatch.setenv("AOTC_THREADS", "2")
    monkeypatch.setenv("AOTC_SEED", "2")
    options = load_options({"threads": 3, "seed": None, "disable": ()}, tmp_path)
    assert (options.threads, options.seed, options.validate_passes) == (3, 2, "each")


def test_a_seed_of_zero_on_the_command_line_counts(tmp_path: Path) -> None:
    (tmp_path / "aotc.toml").write_text("seed = 1\n")
    assert load_options({"seed": 0}, tmp_path).seed == 0


def test_own_file_hides_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.aotc]\nseed = 5\n")
    assert load_options({}, tmp_path).seed == 5
    (tmp_path / "aotc.toml").write_text("threads = 2\n")
    assert (load_options({}, tmp_path).seed, load_options({}, tmp_path).threads) == (0, 2)


@pytest.mark.parametrize(("text", "expected"), [("a,b", ("a", "b")), ("a", ("a",)), ("", ()), ("a,", ("a",))])
def test_a_list_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: tuple[str, ...]
) -> None:
    monkeypatch.setenv("AOTC_DISABLE", text)
    assert load_options({}, tmp_path).disable == expected


def test_tolerances_by_output(tmp_path: Path) -> None:
    (tmp_path / "aotc.toml").write_text("[tolerance.'output.0']\natol = 1e-3\n")
    assert load_options({}, tmp_path).tolerance == {"output.0": Bound(atol=1e-3, rtol=0.0)}


@pytest.mark.parametrize("name", ["aotc.toml", "pyproject.toml"])
def test_an_unknown_key_has_a_place_and_a_suggestion(tmp_path: Path, name: str) -> None:
    table = "[tool.aotc]\n" if name == "pyproject.toml" else ""
    (tmp_path / name).write_text(f"{table}thread = 2\n")
    with pytest.raises(UsageError, match="unknown option 'thread'") as caught:
        load_options({}, tmp_path)
    assert caught.value.hint == "did you mean 'threads'?"
    assert str(caught.value.where).endswith(name)
    assert caught.value.exit_code == 2


def test_a_key_like_no_other_lists_them_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_options({"zzzz": 1}, tmp_path)
    assert "threads" in str(caught.value.hint)
    assert caught.value.where == "command line"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threads = 'two'", "option 'threads': "),
        ("threads = true", "option 'threads': .*not true or false"),
        ("seed = true", "option 'seed': .*not true or false"),
        ("threads = 0", "option 'threads': "),
        ("seed = -1", "option 'seed': "),
        ("target = 'gpu'", "option 'target': "),
        ("validate = 'all'", "option 'validate': "),
        ("disable = 'fold-batch-norm'", "option 'disable': "),
        ("[tolerance.y]\nrtol = 1", "option 'tolerance.y.atol': Field required"),
        ("[tolerance.y]\natol = 1\nrtoll = 1", "option 'tolerance.y.rtoll': Extra inputs"),
        ("[tolerance.y]\natol = inf", "option 'tolerance.y.atol': "),
        ("[tolerance.y]\natol = -1", "option 'tolerance.y.atol': "),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "aotc.toml").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        load_options({}, tmp_path)
    assert (caught.value.name, caught.value.where) == ("config", "aotc.toml")


def test_a_wrong_value_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTC_THREADS", "many")
    with pytest.raises(UsageError, match="option 'threads'") as caught:
        load_options({}, tmp_path)
    assert caught.value.where == "environment variable AOTC_THREADS"


@pytest.mark.parametrize("text", ["threads = ", "[tool", b"\xff\xfe"])
def test_what_is_not_toml_is_a_usage_error(tmp_path: Path, text: Any) -> None:
    (tmp_path / "aotc.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=r"aotc\.toml is not valid TOML"):
        load_options({}, tmp_path)


def test_a_table_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\naotc = 3\n")
    with pytest.raises(UsageError, match="must be a table"):
        load_options({}, tmp_path)
    (tmp_path / "pyproject.toml").write_text("tool = 3\n")
    assert load_options({}, tmp_path).threads is None
