"""Operator fault: index_reduce, and a source that is larger than the index."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/12119"
symptom = "The source must have the shape of the index; index_reduce has no translation."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, x, idx):  # (N,4), (N,) in [0,6)
        z = torch.ones(6, 4)
        i = idx[:, None].expand(-1, 2)
        return (
            z.scatter_add(0, i, x),
            z.scatter_reduce(0, i, x, "amax", include_self=False),
            z.index_reduce(0, idx, x, "mean", include_self=False),
            z.index_reduce(0, idx, x, "amin"),
            z.double().index_reduce(0, idx, x.double(), "prod"),
            z.index_add(0, idx, x, alpha=-3),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(*idx):
    g = torch.Generator().manual_seed(len(idx))
    return torch.randn(len(idx), 4, generator=g), torch.tensor(idx)


def inputs():
    return _x(0, 1, 1, 5, 5, 5)


def more_inputs():
    return [_x(2, 2), _x(0, 1, 2, 3, 4, 5, 0)]
