"""docs/options.md has every option, with the flag and the variable that there are."""

from __future__ import annotations

import re
import tomllib

from project_tree import ROOT

from aotc.cli.build import command
from aotc.config import Options

TEXT = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for cells in (line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("| `"))
}


def test_every_option_has_a_row() -> None:
    assert list(ROWS) == [field.alias or name for name, field in Options.model_fields.items()]


def test_flags_and_variables_exist() -> None:
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for name, (flag, variable, _) in ROWS.items():
        named = re.findall(r"--[a-z-]+", flag)
        assert set(named) <= flags
        assert bool(named) == (f"--{name.replace('_', '-')}" in flags)
        assert bool(variable) == bool(flag)
        assert f"AOTC_{name.upper()}" in variable or not variable


def test_the_example_is_valid() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert Options.model_validate(tomllib.loads(example)).seed == 7
