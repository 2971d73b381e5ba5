"""In-place fault: assignment through a boolean mask (x[mask] = value) and through a mask on a leading axis."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/126856"
symptom = "The exported graph has a ScatterElements node that fails at run time."
right = "Eager numerics, also when nothing or everything is selected."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):  # (B,T,3)
        y = x.clone()
        y[y > 1.0] = 0
        y[(x[..., 0] < -0.5)] = 9.0
        y[:, -1] += 1
        y[:, ::2, 1:] *= 2
        return y


def model():
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 4, 3),)


def more_inputs():
    return [(torch.zeros(3, 5, 3),), (torch.full((2, 6, 3), 5.0),), (torch.full((4, 3, 3), -5.0),)]
