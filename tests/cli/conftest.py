"""One tiny model, built once through the real command line; commands run in this process or in their own."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tiny_bundle import TINY, build_once

from aotc.cli import main
from aotc.cli.schema import FOLDER


@dataclasses.dataclass(frozen=True)
class Done:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """Return the error without the lines about stages."""
        return self.err[self.err.find("error[") :].rstrip("\n")

    def document(self, name: str) -> Any:
        """Return stdout as the one JSON document that it is, valid against the shipped schema ``name``."""
        document = json.loads(self.out)
        schema = json.loads((FOLDER / f"{name}.json").read_bytes())
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        return document


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tiny model."""
    return build_once(tmp_path_factory)


@pytest.fixture
def folder(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of our own that has the source file and a copy of the bundle."""
    shutil.copy(tiny / "model.py", tmp_path)
    shutil.copytree(tiny / "bundle", tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command line in this process, which has torch imported only once."""

    def run(*args: str | Path) -> Done:
        capfd.readouterr()
        code = main.run([str(arg) for arg in args])
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., str]:
    """Write a variant of the tiny source: pieces of it replaced, or lines added at its end."""

    def write(*replaced: tuple[str, str], end: str = "", name: str = "variant.py") -> str:
        text = TINY
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text + end, encoding="utf-8")
        return name

    return write
