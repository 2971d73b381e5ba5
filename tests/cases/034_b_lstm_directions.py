"""Recurrent fault: gate order of LSTM, both directions, no biases."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/189225"
symptom = "The gates of torch and of ONNX come in another order; other lengths fail."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(3, 5, num_layers=2, bidirectional=True, bias=False)
        self.second = nn.RNN(10, 4, nonlinearity="relu", bidirectional=True)
        for p in self.parameters():
            p.data *= 2

    def forward(self, x):  # (T,B,3)
        y, (h, c) = self.first(x)
        return (*self.second(y), h, c)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(5, 2, 3),)


def more_inputs():
    return [(torch.randn(9, 3, 3),), (torch.randn(2, 1, 3) * 5,)]
