"""Attention fault: hand-written attention that fills whole rows with a finite minimum."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/huggingface/optimum/pull/2326"
symptom = "A row of equal scores must give the mean of the values."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, q, mask):  # (B,2,T,8), (B,T) bool
        scores = q @ q.mT * 8**-0.5
        fill = torch.finfo(scores.dtype).min
        return (
            scores.masked_fill(~mask[:, None, None], fill).softmax(-1) @ q,
            scores.masked_fill(~mask[:, None, :, None], fill).softmax(-1) @ q,
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, n):
    g = torch.Generator().manual_seed(b + t)
    mask = torch.ones(b, t, dtype=torch.bool)
    mask[0, :n] = False
    return torch.randn(b, 2, t, 8, generator=g), mask


def inputs():
    return _x(2, 5, 5)


def more_inputs():
    return [_x(3, 7, 2), _x(1, 4, 4)]
