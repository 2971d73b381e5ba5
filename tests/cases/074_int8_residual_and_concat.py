"""Quantisation fault: residual add and concat of branches with very different ranges (one tensor, several consumers)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/NVIDIA/TensorRT/issues/3861 (also #1992, #1144)"
symptom = "Q/DQ placed on one input only, or one shared scale for both branches: slow or inaccurate."
right = "int8 output within int8_tol of eager; the small branch is not flushed to zero."
expect = "parity"
int8_tol = 0.06
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.c0 = nn.Conv2d(3, 8, 3, padding=1)
        self.c1, self.c2 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.bn = nn.BatchNorm2d(8)
        self.bn.running_var = torch.rand(8) + 0.1
        self.c2.weight.data *= 40
        self.head = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        a = torch.relu(self.c0(x))
        b = torch.relu(a + self.bn(self.c1(a)))
        c = self.c2(b)
        return self.head(torch.cat([b, c / 40], 1)), b


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 3, 8, 8),)


def more_inputs():
    return [(torch.randn(1, 3, 8, 8),), (torch.randn(6, 3, 8, 8),)]


def calibration():
    g = torch.Generator().manual_seed(9)
    return [(torch.randn(4, 3, 8, 8, generator=g),) for _ in range(8)]
