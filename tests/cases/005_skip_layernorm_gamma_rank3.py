"""Fusion fault: residual add followed by LayerNorm whose gamma/beta have shape (1, 1, D)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/27455"
symptom = "After SkipLayerNormalization fusion the run fails: gamma is expected to have 1 dimension, got 3."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.g = nn.Parameter(torch.randn(1, 1, d))
        self.b = nn.Parameter(torch.randn(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, 1, d))

    def norm(self, x):
        m = x.mean(-1, keepdim=True)
        v = (x - m).pow(2).mean(-1, keepdim=True)
        return (x - m) / torch.sqrt(v + 1e-5) * self.g + self.b

    def forward(self, x):
        h = self.norm(x + self.fc(x))
        return self.norm(h + self.pos)  # the skip broadcasts over batch and time


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 5, 12),)


def more_inputs():
    return [(torch.randn(1, 1, 12),), (torch.randn(4, 9, 12) * 50,), (torch.zeros(3, 2, 12),)]
