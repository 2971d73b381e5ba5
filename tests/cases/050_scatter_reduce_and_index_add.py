"""Operator fault: scatter_reduce(amax) / scatter_add / index_add with repeated indices and include_self."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/152419 (also onnxruntime#12119)"
symptom = "2-D scatter_reduce with max is converted wrongly; scatter_add with duplicates loses values."
right = "Eager numerics; duplicates accumulate."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, x, idx):  # (N,3), (N,) in [0,5)
        i = idx[:, None].expand(-1, x.shape[1])
        z = x.new_zeros(5, x.shape[1])
        a = z.scatter_reduce(0, i, x, "amax", include_self=False)
        b = z.scatter_add(0, i, x)
        c = z.index_add(0, idx, x, alpha=2)
        d = (z + 1).scatter_reduce(0, i, x, "mean", include_self=True)
        return a, b, c, d


def model():
    return M().eval()


def _x(*idx):
    g = torch.Generator().manual_seed(len(idx))
    return torch.randn(len(idx), 3, generator=g) - 2, torch.tensor(idx)


def inputs():
    return _x(0, 1, 1, 4, 4, 4)


def more_inputs():
    return [_x(2, 2), _x(0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 3)]
