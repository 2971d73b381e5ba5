"""Attention fault: cross attention with other key/value widths and lengths and a key padding mask."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/pull/27458 (also PR #8106)"
symptom = "Attention fusion written for self attention mis-sizes Q/K/V or does not match cross attention."
right = "Eager numerics; K and V come from the encoder only."
expect = "parity"
dynamic_shapes = (
    {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
    {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
    {0: Dim.DYNAMIC, 1: Dim.DYNAMIC},
)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.att = nn.MultiheadAttention(16, 4, batch_first=True, kdim=12, vdim=12)
        self.n = nn.LayerNorm(16)

    def forward(self, x, enc, pad):  # pad: True = ignore
        y, _ = self.att(x, enc, enc, key_padding_mask=pad, need_weights=False)
        return self.n(x + y)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, s, n):
    g = torch.Generator().manual_seed(b + t + s)
    pad = torch.zeros(b, s, dtype=torch.bool)
    pad[0, s - n :] = n > 0
    return torch.randn(b, t, 16, generator=g), torch.randn(b, s, 12, generator=g), pad


def inputs():
    return _x(2, 3, 5, 2)


def more_inputs():
    return [_x(3, 6, 4, 0), _x(2, 2, 9, 8), _x(1, 1, 3, 1)]
