"""Dtype fault: look-ups in float16 and bfloat16 tables."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/106298"
symptom = "A table in a half type has no kernel, or the result has another dtype."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow = nn.Embedding(11, 4, dtype=torch.float16)
        self.wide = nn.Embedding(11, 4, dtype=torch.bfloat16)

    def forward(self, ids):
        h = self.narrow(ids)
        return h, self.wide(ids).float() * 2, h.float().mean(-1), h[..., 0].sort(dim=-1, stable=True).values


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.tensor([[1, 2, 3], [4, 5, 10]]),)


def more_inputs():
    return [(torch.tensor([[0]]),), (torch.tensor([[9, 8, 7, 6]] * 3),)]
