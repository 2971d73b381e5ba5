"""Attention fault: is_causal with fewer queries than keys; top-left or bottom-right alignment differs between backends."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/29020 (also pytorch#108108)"
symptom = "CPU and CUDA kernels align the causal mask to different corners; decoding steps silently go wrong."
right = "Eager semantics of scaled_dot_product_attention (top-left alignment)."
expect = "parity"
dynamic_shapes = ({2: Dim.DYNAMIC}, {2: Dim.DYNAMIC}, {2: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def model():
    return M().eval()


def _x(l, s):
    g = torch.Generator().manual_seed(l * 10 + s)
    return tuple(torch.randn(2, 2, n, 8, generator=g) for n in (l, s, s))


def inputs():
    return _x(3, 5)


def more_inputs():
    return [_x(2, 9), _x(4, 4), _x(6, 3), _x(1, 7)]
