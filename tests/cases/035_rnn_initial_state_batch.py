"""Recurrent fault: initial state given from outside (batch on axis 1) or built from the input's batch size."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/19270"
symptom = "Only the exported batch size works although the axis was declared dynamic."
right = "Eager numerics for other batch sizes, states included."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.GRU(4, 6, batch_first=True)
        self.l = nn.LSTM(6, 3, batch_first=True)

    def forward(self, x, h0):
        y, h = self.g(x, h0)
        z = x.new_zeros(1, x.shape[0], 3)
        o, (hn, cn) = self.l(y, (z, z + 0.5))
        return o, h, hn, cn


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t):
    g = torch.Generator().manual_seed(b + t)
    return torch.randn(b, t, 4, generator=g), torch.randn(1, b, 6, generator=g)


def inputs():
    return _x(2, 5)


def more_inputs():
    return [_x(4, 5), _x(1, 3), _x(3, 8)]
