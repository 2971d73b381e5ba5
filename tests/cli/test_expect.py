"""``--expect-fused`` and ``inspect --why`` with an operator: what became of attention."""

from __future__ import annotations

from pathlib import Path

import pytest

SOURCE = """
import torch
from torch import nn
from torch.export import Dim

dynamic_shapes = ({0: Dim("batch"), 1: Dim("seq")},)
profiles = [{"batch": (1, 2, 4), "seq": (1, 5, 16)}]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("tril", torch.tril(torch.ones(16, 16)))

    def attend(self, x):
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, 2, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) * 8**-0.5
        scores = scores.masked_fill(self.tril[:n, :n] == 0, float("-inf"))
        weights = scores.softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, 16)), weights

    def forward(self, x):
        x, _ = self.attend(x)
        return RETURNED


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 5, 16),)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def write(returned: str) -> str:
        (tmp_path / "net.py").write_text(SOURCE.replace("RETURNED", returned))
        return "net.py"

    return write


def test_met(cli, source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTC_EXPECT_FUSED", "attention=2, softmax=0")
    assert cli("build", source("self.attend(x)[0]"), "-o", "out").code == 0
    done = cli("inspect", "out", "--why", "attention")
    assert done.code == 0
    assert done.out.count("products and softmax -> Attention (causal)") == 2
    document = cli("inspect", "out", "--why", "attention", "--json").document("inspect")
    assert [entry["name"] for entry in document["passes"]] == ["raise-attention"]
    assert cli("inspect", "out", "--why", "gelu").code == 2


def test_missed(cli, source, tmp_path: Path) -> None:
    done = cli("build", source("self.attend(x)"), "-o", "out", "--expect-fused", "attention=2")
    assert done.code == 1
    assert done.error.startswith("error[expect-fused]: the graph has attention=1, expected attention=2; ")
    assert "not raised: the attention weights 'output.1' are an output of the graph" in done.error
    assert "net.py:" in done.error
    assert not (tmp_path / "out").exists()
    assert cli("build", "net.py", "-o", "out").code == 0
    why = cli("inspect", "out", "--why", "attention").out
    assert "the attention weights 'output.1' are an output of the graph" in why


@pytest.mark.parametrize("text", ["atention=1", "attention", "attention=x", "attention=-1"])
def test_refused(cli, source, text: str) -> None:
    done = cli("build", source("x"), "-o", "out", "--expect-fused", text)
    assert done.code == 2
    assert "error[config]" in done.error
