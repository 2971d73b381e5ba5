"""Operator fault: bags of equal size, with a weight for each entry."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/25469"
symptom = "The exported loop leaves an invalid graph."
right = "Eager numerics."
expect = "parity"
_shape = {0: Dim("bags", min=1, max=64), 1: Dim.DYNAMIC}  # eager itself crashes without any bag
dynamic_shapes = (_shape, _shape)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.weighted = nn.EmbeddingBag(9, 3, mode="sum")
        self.largest = nn.EmbeddingBag(9, 3, mode="max", padding_idx=0)

    def forward(self, ids, weights):  # (B,N), (B,N)
        return self.weighted(ids, per_sample_weights=weights), self.largest(ids.clamp(0, 8))


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, n):
    g = torch.Generator().manual_seed(b + n)
    return torch.randint(0, 9, (b, n), generator=g), torch.randn(b, n, generator=g)


def inputs():
    return _x(2, 5)


def more_inputs():
    return [_x(3, 2), (torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3))]
