"""Recurrent fault: initial states of several layers and directions, lengths and batches that vary."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/19270"
symptom = "Only the exported batch and length work."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {1: Dim.DYNAMIC}, {1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True)
        self.rnn = nn.RNN(6, 3, num_layers=4, batch_first=True)

    def forward(self, x, h, c):  # (B,T,4), (4,B,3), (4,B,3)
        y, states = self.lstm(x, (h, c))
        return (*self.rnn(y, h + c), *states)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t):
    g = torch.Generator().manual_seed(b + t)
    return torch.randn(b, t, 4, generator=g), *(torch.randn(4, b, 3, generator=g) for _ in range(2))


def inputs():
    return _x(2, 5)


def more_inputs():
    return [_x(4, 5), _x(1, 3), _x(3, 8)]
