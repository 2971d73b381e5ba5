"""Same source, same bytes: in another folder, time zone, locale and hash seed, with no home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from commandline import argv


@pytest.fixture(scope="module")
def again(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Build the source elsewhere, over a bundle; return the folder, and the inode of that bundle."""
    folder = tmp_path_factory.mktemp("elsewhere") / "tiny"
    folder.mkdir()
    shutil.copy(tiny / "model.py", folder)
    shutil.copytree(tiny / "bundle", folder / "bundle")
    inode = (folder / "bundle").stat().st_ino
    env = {"PATH": os.defpath, "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "12345", "LC_ALL": "C"}
    command = argv("build", "model.py", "-o", "bundle")
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, inode


def description(folder: Path) -> dict:
    return json.loads((folder / "bundle/bundle.json").read_text(encoding="utf-8"))


def test_the_digest_is_the_same(tiny: Path, again: tuple[Path, int]) -> None:
    assert description(tiny)["digest"] == description(again[0])["digest"]


def test_every_file_under_the_digest_is_the_same(tiny: Path, again: tuple[Path, int]) -> None:
    files = description(tiny)["files"]
    assert {"model.onnx", "model.ort-optimised.onnx"} < set(files)
    for name in files:
        assert (tiny / "bundle" / name).read_bytes() == (again[0] / "bundle" / name).read_bytes(), name


def test_the_bundle_was_replaced_and_nothing_is_left_beside_it(tiny: Path, again: tuple[Path, int]) -> None:
    folder, inode = again
    assert (folder / "bundle").stat().st_ino != inode
    names = {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}
    assert names - {"__pycache__"} == {"model.py", "bundle"}
    here, there = (sorted(p.name for p in (f / "bundle").rglob("*")) for f in (tiny, folder))
    assert here == there
