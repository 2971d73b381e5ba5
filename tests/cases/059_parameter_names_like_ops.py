"""Naming fault: parameters and buffers called like the values the exporter makes (add, mean, linear, val_0)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/168211"
symptom = "Name clash between a lifted tensor and a node output gives a wrong or invalid ONNX file."
right = "Eager numerics; names made unique."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.add = nn.Parameter(torch.randn(4))
        self.mean = nn.Parameter(torch.randn(4))
        self.linear = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("val_0", torch.randn(4))
        self.register_buffer("x", torch.randn(4))
        self.register_buffer("mul", torch.tensor(3.0))

    def forward(self, x):
        y = nn.functional.linear(x + self.add, self.linear)
        m = y.mean(0, keepdim=True) * self.mul
        return (y - m) * self.mean + self.val_0 + self.x


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 4),)


def more_inputs():
    return [(torch.randn(8, 4),), (torch.zeros(2, 4),)]
