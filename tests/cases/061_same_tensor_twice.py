"""Aliasing fault: the example passes one tensor object for several arguments."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/139646"
symptom = "The exported graph treats the arguments as one input and ignores the others."
right = "Independent inputs, eager numerics when they differ."
expect = "parity"
dynamic_shapes = ([{0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}], {0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, xs, y, z):
        return xs[0] - 2 * xs[1] + 3 * y - z * z


def model():
    return M().eval()


def inputs():
    torch.manual_seed(1)
    x = torch.randn(3, 2)
    return [x, x], x, x


def more_inputs():
    r = lambda n: torch.randn(n, 2)
    return [([r(4), r(4)], r(4), r(4)), ([r(2), r(2)], r(2), r(2))]
