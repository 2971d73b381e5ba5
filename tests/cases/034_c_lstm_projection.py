"""Recurrent fault: an LSTM with projections, for which there is no kernel."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/189225"
symptom = "The projection is dropped, or the graph does not load."
right = "A refusal that names the projections."
expect = "error: LSTM with projections (proj_size)"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 6, proj_size=2)

    def forward(self, x):
        return self.lstm(x)[0]


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(5, 2, 3),)


def more_inputs():
    return [(torch.randn(9, 3, 3),)]
