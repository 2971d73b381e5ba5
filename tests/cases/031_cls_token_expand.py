"""Shape fault: class token expanded to the batch and sliced position table."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/171618"
symptom = "Shape inference forgets the dynamic batch after the expand and broadcast; the output shape is recorded as fixed."
right = "Eager numerics, output axes still symbolic in the compiled model."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, 65, d))
        self.fc = nn.Linear(d, d)

    def forward(self, x):
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1)
        x = x + self.pos[:, : x.size(1)]
        return self.fc(x)[:, 0], x.flatten(1)[:, :5]


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 4, 8),)


def more_inputs():
    return [(torch.randn(5, 9, 8),), (torch.randn(1, 64, 8),)]
