"""Operator fault: every reduction of scatter_reduce, with and without self, float and integer."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/152419"
symptom = "mean is a plain write; amax without self starts from a finite number."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({1: Dim.DYNAMIC}, {1: Dim.DYNAMIC}, None)


class M(nn.Module):
    def forward(self, x, idx, z):  # (3,N), (3,N) in [0,5), (3,5)
        kinds = ("sum", "prod", "mean", "amax", "amin")
        whole = (x * 4).long(), (z * 4).long()
        results = []
        for kind in kinds:
            for own in (True, False):
                results.append(z.scatter_reduce(1, idx, x, kind, include_self=own))
                results.append(whole[1].scatter_reduce(-1, idx, whole[0], kind, include_self=own))
        return results


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(n):
    g = torch.Generator().manual_seed(n)
    z = torch.randn(3, 5, generator=g)
    return torch.randn(3, n, generator=g).round(decimals=1), torch.randint(0, 5, (3, n), generator=g), z


def inputs():
    return _x(6)


def more_inputs():
    return [_x(2), _x(11)]
