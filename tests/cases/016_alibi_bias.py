"""Attention fault: ALiBi slopes added to the scores; a pass that replaces the mask by a plain causal flag loses them."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/huggingface/optimum/pull/2326"
symptom = "Falcon/ALiBi decoders mismatched eager for batched inputs after export."
right = "Eager numerics with the bias kept; left-padded rows included."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self, d=16, h=4):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, h + 1).float())

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        pos = (mask.cumsum(-1) - 1) * mask
        bias = self.slopes[None, :, None, None] * pos[:, None, None, :].to(x.dtype)
        causal = torch.ones(t, t, dtype=torch.bool).tril() & mask[:, None, None, :].bool()
        bias = bias.masked_fill(~causal, torch.finfo(x.dtype).min)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, n):
    g = torch.Generator().manual_seed(b + t)
    m = torch.ones(b, t, dtype=torch.long)
    m[0, :n] = 0
    return torch.randn(b, t, 16, generator=g), m


def inputs():
    return _x(2, 6, 0)


def more_inputs():
    return [_x(3, 7, 3), _x(2, 4, 1)]
