"""Attention fault: rows without a key, spelled as booleans, minus infinity and the finite minimum."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/103749"
symptom = "A fully masked row gives zeros, a mean or NaN, depending on how the mask is spelled."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC, 2: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, q, mask):  # (B,4,T,8), (B,T,T) bool
        m = mask[:, None]
        k, v = q[:, :2] * 0.5, q[:, 2:] + 1
        masks = (torch.zeros(()).masked_fill(~m, value) for value in (-torch.inf, torch.finfo(q.dtype).min))
        attend = F.scaled_dot_product_attention
        return (
            *(attend(q, k, v, attn_mask=each, enable_gqa=True) for each in masks),
            attend(q, k, v, attn_mask=m, enable_gqa=True, scale=1.5),
            attend(q[:, 0], k[:, 0], v[:, 0], attn_mask=mask),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, dead):
    g = torch.Generator().manual_seed(b * 10 + t)
    mask = torch.rand(b, t, t, generator=g) > 0.4
    mask[..., 0] = True
    mask[0, dead] = False
    return torch.randn(b, 4, t, 8, generator=g), mask


def inputs():
    return _x(2, 5, [1])


def more_inputs():
    return [_x(3, 7, [0, 6]), _x(1, 3, [0, 1, 2])]
