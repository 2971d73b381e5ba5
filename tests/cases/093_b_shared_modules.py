"""Alias fault: one module and one weight used in several places."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/80271"
symptom = "Shared weights are stored twice or mixed up."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7)
        self.head.weight = self.embed.weight
        self.block = nn.Linear(4, 4)
        self.again = self.block

    def forward(self, ids):
        h = self.again(self.block(self.embed(ids)).relu())
        return self.head(h), self.embed.weight.sum(0)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.tensor([1, 2, 6]),)


def more_inputs():
    return [(torch.tensor([0]),), (torch.tensor([3, 3, 4, 5, 0]),)]
