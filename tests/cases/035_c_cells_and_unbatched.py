"""Recurrent fault: single cells, and a sequence without a batch axis."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/19270"
symptom = "The batch of the example stays in the graph."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.lstm, self.rnn = nn.GRUCell(4, 3), nn.LSTMCell(4, 3), nn.RNNCell(4, 3)
        self.whole = nn.GRU(4, 3)

    def forward(self, x, seq):  # (B,4), (T,4)
        h = self.gru(x)
        for _ in range(3):
            h, c = self.lstm(x, (h, h * 0.5))
        return h, c, self.rnn(x, h), *self.whole(seq)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t):
    g = torch.Generator().manual_seed(b + t)
    return torch.randn(b, 4, generator=g), torch.randn(t, 4, generator=g)


def inputs():
    return _x(2, 5)


def more_inputs():
    return [_x(3, 7), _x(1, 2)]
