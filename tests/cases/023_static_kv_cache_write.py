"""KV-cache fault: write into a pre-allocated cache by position; a position outside the cache must be an error, not a silent write."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/158739"
symptom = "index_copy into a fixed-size buffer with a dynamic number of positions fails to export; out-of-range positions are not caught."
right = "Eager numerics for valid positions; for the bad inputs eager raises, so the compiled model must raise too."
expect = "parity"
dynamic_shapes = ({2: Dim.DYNAMIC}, None, {0: Dim.DYNAMIC})
C = 8


class M(nn.Module):
    def forward(self, kv, cache, pos):  # (B,2,T,4), (B,2,C,4), (T,)
        cache = cache.clone()
        cache[:, :, pos] = kv
        keep = torch.arange(C)[None, :] <= pos[:, None]
        s = (kv @ cache.transpose(-1, -2)).masked_fill(~keep, float("-inf"))
        return s.softmax(-1) @ cache, cache


def model():
    return M().eval()


def _x(*pos):
    g = torch.Generator().manual_seed(len(pos))
    return (
        torch.randn(2, 2, len(pos), 4, generator=g),
        torch.randn(2, 2, C, 4, generator=g),
        torch.tensor(pos),
    )


def inputs():
    return _x(0, 1, 2)


def more_inputs():
    return [_x(3, 4), _x(5, 2, 7, 0), _x(7, 6, 5, 4, 3)]


def bad_inputs():
    return [_x(6, 7, 8), _x(100, 0)]
