"""Calibration fault: an activation that is constant (all zero, or one value) in every sample: zero range, scale 0."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/NVIDIA/TensorRT/issues/3112 (also onnxruntime#24815)"
symptom = "Scale is 0 or NaN, or the quantiser fails on a scalar bias. Seen here: for a ReLU that is always 0, scale 1 / zero point 0 is stored and the Relu node is dropped, so -100 leaks through."
right = (
    "int8 output within int8_tol of eager: finite positive scales; a dead ReLU and a one-element bias work."
)
expect = "parity"
int8_tol = 0.05
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.dead, self.live, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(16, 1)
        self.dead.bias.data.fill_(-100.0)

    def forward(self, x):
        return self.out(torch.cat([torch.relu(self.dead(x)), self.live(x)], -1)) + 0.0 * x.sum(
            -1, keepdim=True
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(4, 8),)


def more_inputs():
    return [(torch.randn(2, 8),), (torch.zeros(3, 8),)]


def calibration():
    g = torch.Generator().manual_seed(9)
    return [(torch.randn(4, 8, generator=g),) for _ in range(6)]
