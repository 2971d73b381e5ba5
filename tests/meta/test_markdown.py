"""What the Markdown files say is so: commands exist with their options, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from project_tree import ROOT, markdown_files, name, text_files

from aotc.cli.main import cli

FENCE = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FILES = markdown_files()
each = pytest.mark.parametrize("path", FILES, ids=[name(path) for path in FILES])

WORDS = ("/ro" + "ot/", "/wo" + "rk/", "TO" + "DO", "FIX" + "ME", "XX" + "X")
"""Absolute paths of one machine, and notes to oneself."""


def commands(text: str) -> list[list[str]]:
    """Return the words of every command in the bash blocks; a line may go on after a backslash."""
    lines = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    return [words for words in (shlex.split(line, comments=True) for line in lines) if words]


@each
def test_commands_exist(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: Path(value))
    for words in commands(path.read_text(encoding="utf-8")):
        if words[0] == "aotc":
            parse(words[1:])
        elif words[0] in ("bash", "python", "source") and not words[1].startswith("-"):
            assert (ROOT / words[1]).is_file(), f"{name(path)}: {' '.join(words)}"


def parse(args: list[str]) -> None:
    """Parse a command line of aotc without running it; click raises if anything in it is not known."""
    with cli.make_context("aotc", list(args)) as context:
        rest = [*context._protected_args, *context.args]
        command = cli.get_command(context, rest[0])
        assert command is not None, rest[0]
        command.make_context(f"aotc {rest[0]}", rest[1:], parent=context)


def test_the_parser_notices_what_does_not_exist() -> None:
    parse(["build", "model.py", "-o", "dist", "--validate", "each"])
    with pytest.raises(click.UsageError, match="No such option"):
        parse(["build", "model.py", "-o", "dist", "--fast"])
    with pytest.raises(AssertionError, match="optimise"):
        parse(["optimise", "model.py"])


@each
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        where = (path.parent / file).resolve() if file else path
        assert where.exists(), f"{name(path)}: {target}"
        if anchor:
            headings = {slug(h) for h in HEADING.findall(where.read_text(encoding="utf-8"))}
            assert anchor in headings, f"{name(path)}: {target}"


def slug(heading: str) -> str:
    """Return the anchor of a heading as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_no_words_that_do_not_belong_here() -> None:
    found = [f"{name(path)}: {word}" for path, text in text_files() for word in WORDS if word in text]
    assert found == []
