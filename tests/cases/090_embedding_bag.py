"""Operator fault: bags of embeddings, with offsets, padding and empty bags."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/128930"
symptom = "The exported loop leaves an invalid graph, and gives the last bag another mean."
right = "Eager numerics."
expect = "parity"
# Eager itself crashes without any bag.
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim("bags", min=1, max=64)})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(9, 3, mode=mode) for mode in ("sum", "mean", "max"))
        self.padded = nn.EmbeddingBag(9, 3, mode="mean", padding_idx=2)

    def forward(self, ids, sizes):  # (N,), (B,)
        # Eager itself checks neither offsets nor, for the maximum, ids: it reads whatever is there.
        starts = (sizes.cumsum(0) - sizes).clamp(0, ids.shape[0])
        ids = ids.clamp(0, 8)
        return [*(bag(ids, starts) for bag in self.bags), self.padded(ids, starts)]


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return torch.tensor([0, 2, 2, 8, 5, 1, 1]), torch.tensor([2, 0, 3, 2])


def more_inputs():
    return [(torch.tensor([2, 2, 3]), torch.tensor([2, 1]))]
