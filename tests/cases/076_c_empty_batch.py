"""Shape fault: empty batches and empty sequences."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/137629"
symptom = "An empty axis ends in another shape, a crash or a message of the runtime."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):  # (B,T,3)
        h = self.fc(x).relu()
        return h.sum(1), torch.cat([h, h[:, :1] * 2], 1), h.flatten(0, 1), (h > 0).any(-1)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 5, 3),)


def more_inputs():
    return [(torch.randn(0, 4, 3),), (torch.randn(1, 1, 3),), (torch.randn(3, 0, 3),)]
