"""Fusion fault: normalisation of a rank-1 tensor with keepdim=False reductions looks like LayerNorm to a pattern matcher."""

import torch
from torch import nn

source = "https://github.com/microsoft/onnxruntime/issues/30513 (follow-up #31147)"
symptom = "Session creation fails: the fused node refers to a removed tensor, because reductions with keepdims=0 / rank-1 input were matched."
right = "Eager numerics; no fusion, or a fusion that knows the rank."
expect = "parity"
dynamic_shapes = None


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.linspace(0.5, 2, 16))
        self.b = nn.Parameter(torch.linspace(-1, 1, 16))

    def forward(self, x):  # (16,)
        c = x - x.mean(-1)
        n = c / torch.sqrt(c.pow(2).mean(-1) + 1e-5)
        return n * self.g + self.b, c / torch.sqrt(c.pow(2).mean() + 1e-5) * self.g


def model():
    return M().eval()


def inputs():
    torch.manual_seed(0)
    return (torch.randn(16),)


def more_inputs():
    return [(torch.ones(16),), (torch.arange(16.0) * 1e3,), (torch.randn(16) * 1e-4,)]
