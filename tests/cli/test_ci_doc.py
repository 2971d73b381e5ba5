"""The commands of docs/ci.md, executed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commandline import argv
from project_tree import ROOT

TEXT = (ROOT / "docs/ci.md").read_text(encoding="utf-8")


def commands(language: str, prefix: str) -> list[list[str]]:
    blocks = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix(prefix) for block in blocks for line in block.splitlines() if line]
    return [shlex.split(line, comments=True) for line in lines]


def run(words: list[str]) -> None:
    out = words[words.index(">") + 1] if ">" in words else None
    args = words[1 : words.index(">")] if out else words[1:]
    assert words[0] == "aotc"
    done = subprocess.run(argv(*args), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stderr}"
    if out:
        Path(out).write_text(done.stdout)


@pytest.mark.parametrize(("language", "prefix"), [("bash", ""), ("yaml", "- run: ")])
def test_every_command_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, language: str, prefix: str
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    (folder / "dist").mkdir()
    shutil.move(folder / "bundle", folder / "dist/released")
    listed = commands(language, prefix)
    assert len(listed) >= 2
    for words in listed:
        run(words)
    assert ElementTree.parse(folder / "reports/build.xml").getroot().get("failures") == "0"
    if language == "bash":
        assert json.loads((folder / "reports/eager.json").read_text())["passed"]
    else:
        assert (folder / "summary.md").read_text().count("### aotc ") == 1


def test_the_sections_that_diff_can_fail_on_are_all_named(cli: Callable[..., object]) -> None:
    from aotc.diff import SECTIONS

    sentence = re.search(r"can fail on (.*?)\.\n", TEXT, re.DOTALL)
    assert tuple(re.findall("`(\\w+)`", sentence[1])) == SECTIONS
