"""Attention fault: grouped-query attention through enable_gqa=True with a mask."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/151762"
symptom = "Export refused enable_gqa; workarounds repeat K/V in the wrong order."
right = "Eager numerics; query head h uses key head h // group."
expect = "parity"
dynamic_shapes = (
    {0: Dim.DYNAMIC, 2: Dim.DYNAMIC},
    {0: Dim.DYNAMIC, 2: Dim.DYNAMIC},
    {0: Dim.DYNAMIC, 3: Dim.DYNAMIC},
)


class M(nn.Module):
    def forward(self, q, kv, mask):  # q (B,6,L,8), kv (B,2,S,8), mask (B,1,1,S)
        return F.scaled_dot_product_attention(q, kv, kv.flip(-1), attn_mask=mask, enable_gqa=True)


def model():
    return M().eval()


def _x(b, l, s):
    g = torch.Generator().manual_seed(b + l + s)
    m = torch.rand(b, 1, 1, s, generator=g) > 0.3
    m[..., 0] = True
    return torch.randn(b, 6, l, 8, generator=g), torch.randn(b, 2, s, 8, generator=g), m


def inputs():
    return _x(2, 4, 5)


def more_inputs():
    return [_x(3, 6, 6), _x(2, 2, 9)]
