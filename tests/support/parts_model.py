"""A tiny encoder and decoder that share a table, as a source file."""

from __future__ import annotations

PARTS = '''\
"""The decoder takes what the encoder returns; the metric runs both."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.mix = nn.Linear(6, 6)

    def forward(self, ids):
        return torch.tanh(self.mix(self.table(ids)))


class Decoder(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.cross = nn.Linear(6, 6)

    def forward(self, ids, hidden):
        weights = (self.cross(self.table(ids)) @ hidden.transpose(1, 2)).softmax(-1)
        return {"logits": (weights @ hidden) @ self.table.weight.T}


def model():
    torch.manual_seed(0)
    table = nn.Embedding(11, 6)
    return {"encoder": Encoder(table).eval(), "decoder": Decoder(table).eval()}


IDS = torch.arange(8).reshape(2, 4)


def inputs():
    hidden = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))
    return {"encoder": (IDS,), "decoder": {"ids": IDS[:, :3], "hidden": hidden}}


dynamic_shapes = {
    "encoder": ({0: "batch", 1: "seq"},),
    "decoder": {"ids": {0: "batch", 1: "steps"}, "hidden": {0: "batch", 1: "seq"}},
}
SIZES = {"batch": (1, 2, 4), "seq": (1, 4, 8)}
profiles = {"encoder": [SIZES], "decoder": [{**SIZES, "steps": (1, 3, 5)}]}


def accuracy(run):
    logits = run["decoder"](ids=IDS[:, :3], hidden=run["encoder"](IDS))["logits"]
    return float(logits.argmax(-1).mean())
'''
