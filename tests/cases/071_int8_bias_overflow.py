"""Quantisation fault: tiny weights make input_scale * weight_scale so small that the int32 bias saturates."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/pull/22020 (issue #21000, PR #25278)"
symptom = "Bias is clipped to the int32 range and the output is far off."
right = "int8 output within int8_tol of eager (adjust the weight scale, or keep that bias in float)."
expect = "parity"
int8_tol = 0.05
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(2, 4, 3)
        self.c.weight.data[:2] *= 1e-9
        self.c.weight.data[3] = 0.0
        self.c.bias.data = torch.tensor([5.0, -4.5, 0.1, 2.0])

    def forward(self, x):
        return self.c(x)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 2, 6, 6),)


def more_inputs():
    return [(torch.randn(5, 2, 6, 6),)]


def calibration():
    g = torch.Generator().manual_seed(9)
    return [(torch.randn(4, 2, 6, 6, generator=g),) for _ in range(8)]
