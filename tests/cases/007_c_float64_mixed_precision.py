"""Dtype fault: Python numbers beside float64 and float32 values of one model."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/32421"
symptom = "0.1 becomes 0.10000000149 on its way to a float64 tensor."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, x, y):  # float64, float32
        z = torch.where(x > 0.1, x.clamp(-0.3, 2.7), 0.1) + torch.full_like(x, 1 / 3)
        w = torch.add(x, y.double(), alpha=0.1)
        return z / 0.7, w.masked_fill(w < 0.2, 1e-9), (y * 0.1).double() * 0.1, y + 0.1


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4)


def more_inputs():
    return [(torch.randn(1, 7, dtype=torch.float64) * 100, torch.randn(1, 7))]
