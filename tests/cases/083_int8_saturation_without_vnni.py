"""Quantisation fault: on an x86 CPU without VNNI the u8*s8 kernels add two products in 16 bits and saturate."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/16105 (also #9365)"
symptom = "QGemm/QLinearConv result is wrong for large weights and activations; with graph optimisation off it is right."
right = (
    "int8 output within int8_tol of eager on every CPU (7-bit weights, u8/u8, or a check of the CPU flags)."
)
expect = "parity"
int8_tol = 0.08
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 8)
        self.a.weight.data = self.a.weight.data.sign() * 0.2
        self.b.weight.data = self.b.weight.data.sign() * (0.9 + 0.1 * torch.rand(8, 64)) * 0.1

    def forward(self, x):
        return self.b(torch.sigmoid(self.a(x) + 3))


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(4, 32),)


def more_inputs():
    return [(torch.randn(2, 32),), (torch.randn(16, 32) * 0.1,)]


def calibration():
    g = torch.Generator().manual_seed(9)
    return [(torch.randn(8, 32, generator=g),) for _ in range(8)]
