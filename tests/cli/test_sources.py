"""Exit codes of sources that are no Python files: one error that says what helps, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from commandline import aotc, error_of
from tiny_models import Mlp
from torch.export import Dim


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    exported = torch.export.export(Mlp().eval(), (torch.randn(3, 8),), dynamic_shapes=({0: Dim("batch")},))
    torch.export.save(exported, "mlp.pt2")
    return "mlp.pt2"


def test_2_a_program_needs_the_users_word(cli, program: str) -> None:
    done = cli("build", program, "-o", "new")
    assert done.code == 2
    assert done.error == (
        "error[untrusted-source]: loading mlp.pt2 can execute code that is hidden in it\n"
        "  where: mlp.pt2\n"
        "  fix: give --trust-source if you trust whoever made it"
    )
    assert not Path("new").exists()


def test_0_a_program_is_built_checked_and_timed(cli, program: str) -> None:
    done = cli("build", program, "-o", "new", "--trust-source", "--dim", "x_0=1:2:5")
    assert done.code == 0, done.err
    assert json.loads(Path("new/bundle.json").read_text())["options"]["trust_source"] is True
    assert cli("check", "new", program).code == 2
    assert cli("check", "new", program, "--trust-source").code == 0
    assert cli("bench", "new", "--vs", program, "--repeat", "1").code == 2
    timed = cli("bench", "new", "--vs", program, "--repeat", "1", "--trust-source", "--json")
    assert timed.code == 0, timed.err
    assert set(timed.document("bench")["sizes"][0]["runners"]) == {"aotc", "eager", "plain export"}


def test_2_a_dim_that_a_program_does_not_have(cli, program: str) -> None:
    done = cli("build", program, "-o", "new", "--trust-source", "--dim", "batch=1:2:5")
    assert done.code == 2
    assert done.error.endswith("fix: dynamic dims of the inputs: x_0")


def test_3_torchscript(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), "net.pt")
    done = cli("build", "net.pt", "-o", "new")
    assert done.code == 3
    assert done.error.startswith("error[script-module]: net.pt is a TorchScript module")


def test_2_weights(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Mlp().state_dict(), "w.pth")
    done = cli("build", "w.pth", "-o", "new")
    assert done.code == 2
    assert done.error.startswith("error[source]: w.pth holds weights and no forward\n  where: w.pth\n  fix: ")


FACTORY = """
import torch

from torch import nn


def tiny_net():
    torch.manual_seed(0)
    return nn.Linear(8, 4).eval()


def inputs():
    return (torch.ones(2, 8),)


def broken():
    return {}["weights"]
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "my_pkg").mkdir()
    (tmp_path / "my_pkg/__init__.py").touch()
    (tmp_path / "my_pkg/models.py").write_text(FACTORY)
    return tmp_path


def test_a_factory(package: Path) -> None:
    done = aotc("build", "my_pkg.models:tiny_net", "-o", "new", cwd=package)
    assert done.returncode == 0, done.stderr
    done = aotc("check", "new", "my_pkg.models:tiny_net", cwd=package)
    assert done.returncode == 0, done.stderr
    done = aotc("build", "my_pkg.models:nothing", "-o", "new", cwd=package)
    assert done.returncode == 2
    assert error_of(done.stderr) == (
        "error[source]: my_pkg.models has no function 'nothing'\n"
        "  where: my_pkg.models:nothing\n"
        "  fix: its functions: broken, inputs, tiny_net"
    )
    done = aotc("build", "my_pkg.models:broken", "-o", "new", cwd=package)
    assert done.returncode == 2
    line = FACTORY.splitlines().index('    return {}["weights"]') + 1
    assert error_of(done.stderr).startswith(
        f"error[source]: KeyError: 'weights'\n  where: my_pkg/models.py:{line}, in broken\n"
    )


def test_2_a_missing_file_is_not_taken_for_a_factory(cli, folder: Path) -> None:
    done = cli("check", "bundle", "nix.py")
    assert done.code == 2
    assert "'nix.py' does not exist" in done.error


def test_2_a_dim_that_a_timm_folder_does_not_have(cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architecture": "resnet18"}')
    done = cli("build", tmp_path, "-o", tmp_path / "new", "--dim", "seq=1:2:3")
    assert done.code == 2
    assert done.error == "error[dim]: no input has the dim 'seq'\n  fix: dims: batch, height, width"


def test_5_a_timm_folder_without_timm(tmp_path: Path) -> None:
    (tmp_path / "resnet").mkdir()
    (tmp_path / "resnet/config.json").write_text('{"architecture": "resnet18"}')
    done = aotc("build", "resnet", "-o", "new", cwd=tmp_path, hidden=("timm",))
    assert done.returncode == 5
    assert error_of(done.stderr) == (
        "error[environment]: the package 'timm' is not installed\n"
        '  fix: pip install torch==2.14.1 torchvision==0.29.1, then pip install "aotc[timm]"'
    )
