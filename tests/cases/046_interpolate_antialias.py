"""Operator fault: antialiased bilinear/bicubic resize uses another filter than eager."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/183546 (also #177138, #157220)"
symptom = (
    "antialias=True exports as Resize with other border handling and cubic coefficient; error up to 0.09."
)
right = "Eager numerics, or a clear refusal of antialias."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):
        a = F.interpolate(x, size=(3, 5), mode="bilinear", align_corners=False, antialias=True)
        b = F.interpolate(x, size=(4, 6), mode="bicubic", align_corners=False, antialias=True)
        c = F.interpolate(x, size=(15, 17), mode="bicubic", align_corners=False)
        return a, b, c


def model():
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 3, 10, 12),)


def more_inputs():
    return [(torch.rand(4, 3, 10, 12) * 255,)]
