"""Quantisation fault: Linear on 2-D input becomes Gemm with transB=1; the per-channel axis is then 0, not 1."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/25890"
symptom = "Quantising a Gemm with transB=1 ends in a shape mismatch or scales along the wrong axis."
right = "int8 output within int8_tol of eager although the rows differ by 60x in size."
expect = "parity"
int8_tol = 0.12
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 24), nn.Linear(24, 16, bias=False)
        self.a.weight.data *= torch.logspace(-1.5, 0.3, 24)[:, None]

    def forward(self, x):
        h = self.a(x)
        return self.b(torch.tanh(h)), h


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(4, 16),)


def more_inputs():
    return [(torch.randn(1, 16),), (torch.randn(9, 16),)]


def calibration():
    g = torch.Generator().manual_seed(9)
    return [(torch.randn(8, 16, generator=g),) for _ in range(8)]
