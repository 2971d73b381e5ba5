"""Recurrent fault: GRU exported with the reset gate applied on the wrong side of the recurrent product."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/189225"
symptom = "nn.GRU exported with linear_before_reset=0: up to 14% error, no warning."
right = "Eager numerics; two layers, both directions."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.GRU(4, 8, num_layers=2, bidirectional=True)

    def forward(self, x):  # (T,B,4)
        return self.g(x)


def model():
    torch.manual_seed(0)
    m = M().eval()
    for p in m.parameters():
        p.data *= 3
    return m


def inputs():
    torch.manual_seed(1)
    return (torch.randn(5, 2, 4),)


def more_inputs():
    return [(torch.randn(9, 3, 4),), (torch.randn(2, 1, 4) * 5,)]
