"""Operator fault: bilinear resize to size 1 picks another coordinate rule (pytorch_half_pixel)."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/183523"
symptom = "Output for size (1, 1) is the corner pixel instead of the centre average."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):
        a = F.interpolate(x, size=(1, 1), mode="bilinear", align_corners=False)
        b = F.interpolate(x, size=(1, 7), mode="bilinear", align_corners=True)
        c = F.interpolate(x, size=(1, 1), mode="bicubic", align_corners=False)
        return a, b, c


def model():
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 3, 10, 10),)


def more_inputs():
    return [(torch.arange(300.0).reshape(1, 3, 10, 10),)]
