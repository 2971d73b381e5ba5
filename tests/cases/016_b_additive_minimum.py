"""Attention fault: a padding mask of float32's minimum over whole rows, with a bias on top."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.export import Dim

source = "https://github.com/huggingface/optimum/pull/2326"
symptom = "The kernel reads the minimum as 'no key'; eager weighs the keys of such a row alike."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, x, mask):  # (B,T,8), (B,T) int64
        q = x.view(*x.shape[:2], 2, 4).transpose(1, 2)
        padding = (1.0 - mask[:, None, None].float()) * torch.finfo(torch.float32).min
        distance = torch.arange(x.shape[1])[None] - torch.arange(x.shape[1])[:, None]
        rows = padding.expand(-1, 1, x.shape[1], -1)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=rows), F.scaled_dot_product_attention(
            q,
            q,
            q,
            attn_mask=torch.maximum(rows + 0.1 * distance, torch.tensor(torch.finfo(torch.float32).min)),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, n):
    g = torch.Generator().manual_seed(b + t)
    mask = torch.ones(b, t, dtype=torch.long)
    mask[0, :n] = 0
    return torch.randn(b, t, 8, generator=g), mask


def inputs():
    return _x(2, 6, 2)


def more_inputs():
    return [_x(3, 5, 5), _x(1, 4, 0)]
