"""Fusion fault: erf, tanh and sigmoid GELU mixed up, or fused although an inner tensor of the pattern is a model output."""

import math
import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/4110"
symptom = "Results differ with optimisations on, and a fused pattern swallowed a node that is a graph output."
right = "Each form keeps its own numerics (erf and tanh differ by up to ~4e-4) and the inner tensor stays an output."
expect = "parity"
tol = (1e-5, 1e-5)
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.b = nn.Parameter(torch.randn(8))

    def forward(self, x):
        h = x + self.b
        e = torch.erf(h / math.sqrt(2.0))
        manual = 0.5 * h * (1.0 + e)
        t = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h.pow(3))))
        almost = 0.5 * h * (1.0 + torch.erf(h / 1.5))  # not a GELU: wrong constant
        return manual, e, t, F.gelu(h), F.gelu(h, approximate="tanh"), almost


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(4, 8),)


def more_inputs():
    return [(torch.linspace(-12, 12, 80).reshape(10, 8),), (torch.randn(2, 8) * 1e3,)]
