"""Fusion fault: hand-written LayerNorm whose scale/shift is larger than the normalised tail, so the affine part broadcasts the result up."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/25855 (also #31980)"
symptom = "LayerNormFusion takes gamma without checking that its shape is X.shape[axis:]; wrong output or a shape error only with optimisations on."
right = "Eager numerics, output (B, 4, 8); a pass must not fuse, or must keep the broadcasting Mul/Add outside the fused node."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(4, 8))
        self.beta = nn.Parameter(torch.randn(4, 8))

    def forward(self, x):  # (B, 1, 8)
        c = x - x.mean(-1, keepdim=True)
        n = c / torch.sqrt(c.pow(2).mean(-1, keepdim=True) + 1e-5)
        return n * self.gamma + self.beta


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 1, 8),)


def more_inputs():
    return [(torch.zeros(2, 1, 8),), (torch.randn(5, 1, 8) * 1e4,), (torch.full((4, 1, 8), 7.0),)]
