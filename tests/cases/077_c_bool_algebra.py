"""Dtype fault: sums, products, comparisons and selections of booleans."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/9539"
symptom = "Add and Where have no kernel for booleans."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, a, b):  # (B,T) bool
        c = torch.where(a, b, ~b)
        c = c.masked_fill(a & b, False)
        return (
            a + b,
            a * b,
            c,
            a.prod(-1),
            a.cumsum(0),
            a <= b,
            (a ^ c).sum(),
            torch.maximum(a, b),
            a.amax(-1),
            a.sum(-1, dtype=torch.float32) / 3,
            torch.logical_or(a, c).all(-1),
            a.scatter(1, torch.zeros(a.shape[0], 1, dtype=torch.long), True),
            a.to(torch.uint8) - b.to(torch.uint8),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t):
    g = torch.Generator().manual_seed(b + t)
    return tuple(torch.rand(b, t, generator=g) > 0.5 for _ in range(2))


def inputs():
    return _x(2, 5)


def more_inputs():
    ones = torch.ones(3, 2, dtype=torch.bool)
    return [_x(3, 8), (ones, ~ones)]
