"""Precision fault: float32 minimum used as mask value; after conversion to fp16 it is -inf and 0 * -inf makes NaN."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/NVIDIA/TensorRT/issues/1500 (also #2118)"
symptom = "FP32 engine is right, FP16 engine returns NaN everywhere."
right = "fp32: eager numerics. fp16 (precision attribute): finite values near eager, masked keys ignored."
expect = "parity"
precision = "fp16"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 48)

    def forward(self, x, mask):
        q, k, v = self.fc(x).chunk(3, -1)
        bias = (1.0 - mask.to(x.dtype)) * torch.finfo(torch.float32).min
        s = q @ k.transpose(-1, -2) / 4 + bias[:, None, :]
        return (s + bias[:, None, :] * 0.5).softmax(-1) @ v


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, n):
    g = torch.Generator().manual_seed(b + t)
    m = torch.ones(b, t, dtype=torch.long)
    m[0, t - n :] = 0
    return torch.randn(b, t, 16, generator=g), m


def inputs():
    return _x(2, 5, 2)


def more_inputs():
    return [_x(3, 4, 0), _x(2, 7, 6)]
