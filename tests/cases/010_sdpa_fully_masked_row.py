"""Attention fault: boolean mask with a row that allows no key at all (padding query)."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/pull/159973 (also onnxruntime#28904)"
symptom = "Exported attention gives NaN (or the mean of V) for a fully masked row where eager gives zeros."
right = "Whatever eager gives for that row, and no NaN leaking into other rows."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, q, mask):  # (B,2,T,8), (B,1,T,T) bool
        return F.scaled_dot_product_attention(q, q * 0.5, q + 1, attn_mask=mask)


def model():
    return M().eval()


def _x(b, t, dead):
    g = torch.Generator().manual_seed(b * 100 + t)
    m = torch.rand(b, 1, t, t, generator=g) > 0.4
    m[..., 0] = True
    for r in dead:
        m[0, :, r] = False
    return torch.randn(b, 2, t, 8, generator=g), m


def inputs():
    return _x(2, 5, [])


def more_inputs():
    return [_x(2, 5, [1]), _x(3, 7, [0, 6]), _x(1, 4, [0, 1, 2, 3])]
