"""Alias fault: views of arguments as results, one result twice, arguments changed as copies."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/74801"
symptom = "Results that share memory are merged, or in-place changes are lost."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, a, b):
        c = a.clone()
        c[:, 0] += b[:, 0]
        row = c[0]
        row.mul_(2)
        return a, a.T, c, c, b.view(-1), row, [a, {"b": b}]


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    x = torch.arange(6.0).reshape(2, 3)
    return x, x


def more_inputs():
    return [(torch.randn(3, 4), torch.randn(3, 4))]
