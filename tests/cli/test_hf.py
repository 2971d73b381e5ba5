"""Exit codes of ``aotc build FOLDER``: one line that says what, where and what helps, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_hf
from commandline import aotc, error_of


@pytest.fixture
def bert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tiny_hf.save(tiny_hf.bert(), tmp_path / "bert")


def test_2_a_folder_that_is_no_model(cli, folder: Path) -> None:
    done = cli("build", "bundle", "-o", "new")
    assert done.code == 2
    assert done.error == (
        "error[source]: the folder bundle has no config.json\n"
        "  fix: give a Python file, or a folder with config.json and weights"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("seq=4", "'seq=4' is not like seq=1:128:512"),
        ("seq=4:2:8", "'seq=4:2:8' is not in the order MIN:OPT:MAX"),
        ("length=1:2:3", "no input has the dim 'length'"),
    ],
)
def test_2_sizes_that_are_not_usable(cli, bert: Path, value: str, text: str) -> None:
    done = cli("build", bert, "-o", "new", "--dim", value)
    assert done.code == 2
    assert text in done.error


def test_2_sizes_for_a_source_with_profiles(cli, folder: Path) -> None:
    done = cli("build", "model.py", "-o", "new", "--dim", "batch=1:2:3")
    assert done.code == 2
    assert done.error.startswith("error[dim]: --dim is for a source without profiles of its own")


def test_2_sizes_for_a_bundle_that_has_its_own(cli, folder: Path) -> None:
    done = cli("check", "bundle", "model.py", "--dim", "batch=1:2:3")
    assert done.code == 2
    assert done.error.startswith("error[dim]: a bundle has sizes of its own")


def test_3_refused_with_the_place(cli, bert: Path) -> None:
    tiny_hf.edit_config(bert, architectures=["FutureModel"])
    done = cli("build", bert, "-o", "new")
    assert done.code == 3
    assert done.error.startswith("error[hf-architecture]: transformers 5.")
    assert "\n  where: architectures in config.json\n" in done.error
    assert not Path("new").exists()


def test_3_code_of_the_folder_is_not_run(cli, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers.dynamic_module_utils as dynamic

    monkeypatch.setattr(dynamic, "HF_MODULES_CACHE", str(bert.parent / "modules"))
    (bert / "own.py").write_text("raise SystemExit('ran')")
    tiny_hf.edit_config(bert, auto_map={"AutoModel": "own.Own"}, architectures=["Own"])
    done = cli("build", bert, "-o", "new")
    assert done.code == 3
    assert done.error.startswith("error[hf-remote-code]: ")
    trusted = cli("build", bert, "-o", "new", "--trust-remote-code")
    assert trusted.code == 2
    assert "SystemExit: ran" in trusted.error


def test_5_without_transformers(bert: Path) -> None:
    done = aotc("build", bert, "-o", "new", cwd=bert.parent, hidden=("transformers",))
    assert done.returncode == 5
    assert error_of(done.stderr) == (
        "error[environment]: the package 'transformers' is not installed\n  fix: pip install \"aotc[hf]\""
    )
