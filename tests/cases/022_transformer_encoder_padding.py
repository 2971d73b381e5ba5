"""Attention fault: nn.TransformerEncoder in eval mode with a padding mask (nested-tensor fast path in eager)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/110557 (also #109532)"
symptom = "Exported encoder and eager differ; the fast path zeroes padded positions and shortens the output."
right = "Eager numerics at the positions that are not padding; shape (B, T, D)."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)

    def forward(self, ids, pad):
        return self.enc(self.emb(ids), src_key_padding_mask=pad).masked_fill(pad[..., None], 0.0)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t, n):
    pad = torch.zeros(b, t, dtype=torch.bool)
    pad[0, t - n :] = n > 0
    return torch.arange(b * t).reshape(b, t) % 20, pad


def inputs():
    return _x(2, 6, 2)


def more_inputs():
    return [_x(3, 4, 0), _x(2, 9, 5)]
