"""Operator fault: rotary embedding in complex numbers."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/113067"
symptom = "Complex values have no counterpart in ONNX."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rates", 1e4 ** (-torch.arange(0, 8, 2) / 8))

    def forward(self, x):  # (B,T,8)
        turns = torch.arange(x.shape[1])[:, None] * self.rates
        rotation = torch.polar(torch.ones_like(turns), turns)
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        turned = torch.view_as_real(pairs * rotation)
        return turned.flatten(-2), (pairs * 2).abs(), pairs.angle(), pairs.real + pairs.imag


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 5, 8),)


def more_inputs():
    return [(torch.randn(1, 9, 8),), (torch.randn(3, 2, 8) * 10,)]
