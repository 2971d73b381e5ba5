"""Dtype fault: boolean tensors in cumsum, sum, any, where, comparison and index assignment."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/13681 (also #9539, pytorch#82870)"
symptom = "The graph feeds tensor(bool) to CumSum/Where/ReduceSum, which ONNX Runtime refuses at load time."
right = "Eager numerics and dtypes (sum of bool is int64)."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, m, x):
        c = m.cumsum(-1)
        k = x > 0
        k = k.masked_fill(~m, False)
        o = torch.where(m, k, m ^ k)
        return (
            c,
            m.sum(-1),
            m.any(-1),
            m.all(0),
            o,
            (m.long() * 2 + m),
            m < k,
            m.float().cumsum(0),
            m.sort(dim=-1, descending=True, stable=True).values,
        )


def model():
    return M().eval()


def _x(b, t):
    g = torch.Generator().manual_seed(b + t)
    return torch.rand(b, t, generator=g) > 0.5, torch.randn(b, t, generator=g)


def inputs():
    return _x(2, 5)


def more_inputs():
    return [
        _x(3, 8),
        (torch.zeros(2, 3, dtype=torch.bool), torch.ones(2, 3)),
        (torch.ones(4, 2, dtype=torch.bool), -torch.ones(4, 2)),
    ]
