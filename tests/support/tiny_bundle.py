"""A tiny model as a source file, and its bundle, built once for all workers."""

from __future__ import annotations

from pathlib import Path

import filelock
import pytest
from commandline import aotc

TINY = '''\
"""Two linear layers, a batch from 1 to 8, and a metric."""

import torch
from torch import nn


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.second = nn.Linear(8, 3)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)

    def forward(self, x):
        return {"logits": self.second(self.norm(torch.relu(self.first(x))))}


def model():
    return Tiny().eval()


def inputs():
    return (torch.randn(2, 4, generator=torch.Generator().manual_seed(1)),)


dynamic_shapes = ({0: "batch"},)
profiles = [{"batch": (1, 2, 8)}]


def accuracy(run):
    return float(run(inputs()[0])["logits"].argmax(-1).sum())
'''


def build_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``model.py``, ``bundle`` and what the build printed; nobody writes into it."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # a worker of xdist: the parent is common to all
        shared = shared.parent
    folder = shared / "tiny"
    with filelock.FileLock(shared / "tiny.lock"):
        if not (folder / "bundle").exists():
            folder.mkdir(exist_ok=True)
            (folder / "model.py").write_text(TINY, encoding="utf-8")
            done = aotc("build", "model.py", "-o", "bundle", cwd=folder)
            assert done.returncode == 0, done.stderr
            (folder / "build.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    return folder
