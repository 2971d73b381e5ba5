"""Fusion fault: epsilon lost or moved (1e-12, 1e-3, outside the square root) and unbiased std taken for population std."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/pull/3768 (also issue #4293)"
symptom = "The fused node used its own default epsilon instead of the model's; visible on rows with almost no variance."
right = "Eager numerics for each form; only the first is a true LayerNormalization."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d))
        self.b = nn.Parameter(torch.randn(d))
        self.ln = nn.LayerNorm(d, eps=1e-12)

    def forward(self, x):
        a = self.ln(x)
        b = F.layer_norm(x, (x.shape[-1],), self.w, self.b, 1e-3)
        c = x - x.mean(-1, keepdim=True)
        outside = self.w * c / (x.std(-1, keepdim=True) + 1e-3) + self.b  # unbiased, eps outside
        rms = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-2) * (1 + self.w)  # Gemma: 1 + w
        return a, b, outside, rms


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 4, 16),)


def more_inputs():
    return [
        (torch.randn(3, 7, 16) * 1e-6,),
        (torch.randn(2, 2, 16) * 1e-2 + 1,),
        (torch.randn(5, 2, 16) * 1e5,),
    ]
