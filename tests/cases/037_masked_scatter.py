"""Operator fault: masked_scatter puts the source values in the wrong order (image tokens into text embeddings)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/186146"
symptom = (
    "dynamo export is numerically wrong for masked_scatter with a broadcast mask; the old exporter is right."
)
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, emb, mask, feats):  # (B,S,D), (B,S) bool, (N,D)
        return emb.masked_scatter(mask[..., None], feats)


def model():
    return M().eval()


def _x(b, s, where):
    g = torch.Generator().manual_seed(b + s)
    m = torch.zeros(b, s, dtype=torch.bool)
    for i, j in where:
        m[i, j] = True
    return torch.randn(b, s, 6, generator=g), m, torch.arange(max(len(where), 2) * 6.0).reshape(-1, 6)


def inputs():
    return _x(2, 5, [(0, 1), (0, 2), (1, 4)])


def more_inputs():
    return [_x(3, 7, [(2, 0), (0, 6), (1, 1), (1, 2)]), _x(2, 4, [])]
