"""Attention fault: sliding-window causal mask whose window ends inside the cached keys."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/huggingface/transformers/issues/37574 (also onnxruntime-genai#2334)"
symptom = "Once the total length passes the window, cache/mask handling is off by one or forgets the window."
right = "Eager numerics before, at and after the window boundary."
expect = "parity"
dynamic_shapes = ({2: Dim.DYNAMIC}, {2: Dim.DYNAMIC})
W = 4


class M(nn.Module):
    def forward(self, q, past):  # (B,2,T,8), (B,2,P,8)
        k = torch.cat([past, q * 0.7], 2)
        t, s = q.shape[2], k.shape[2]
        qi = torch.arange(t)[:, None] + (s - t)
        kj = torch.arange(s)[None]
        keep = (kj <= qi) & (kj > qi - W)
        sc = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(~keep, float("-inf"))
        return sc.softmax(-1) @ k, k[:, :, -W:]


def model():
    return M().eval()


def _x(t, p):
    g = torch.Generator().manual_seed(t * 10 + p)
    return torch.randn(2, 2, t, 8, generator=g), torch.randn(2, 2, p, 8, generator=g)


def inputs():
    return _x(2, 5)


def more_inputs():
    return [_x(3, 2), _x(2, 3), _x(6, 7), _x(5, 12), _x(1, 4), _x(2, 0)]
