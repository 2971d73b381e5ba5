"""Dtype fault: reductions of float16 come back as float32."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/106298"
symptom = "The exporter computes in float32 and forgets to cast a graph output back."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):
        h = x.half()
        return h.sum(-1), h.amax(0), h.abs(), h.cumsum(-1), h.softmax(-1), (h.sum(-1) * h[:, 0]).float()


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 5),)


def more_inputs():
    return [(torch.randn(1, 8),), (torch.zeros(4, 2),)]
