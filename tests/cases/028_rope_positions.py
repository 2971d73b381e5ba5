"""Operator fault: rotary embedding from position ids with a dynamic sequence length and large positions."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/TensorRT/issues/3978"
symptom = "With dynamic shapes the compiled rotary embedding differs from eager by 0.1; static shapes agree."
right = "Eager numerics; angles computed in fp32 even at positions in the tens of thousands."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC})


class M(nn.Module):
    def __init__(self, hd=16):
        super().__init__()
        self.register_buffer("inv", 1.0 / 10000 ** (torch.arange(0, hd, 2).float() / hd), persistent=False)

    def forward(self, q, pos):  # (B,H,T,16), (B,T)
        f = (self.inv[None, :, None].expand(pos.shape[0], -1, 1) @ pos[:, None, :].float()).transpose(1, 2)
        e = torch.cat((f, f), -1)
        cos, sin = e.cos()[:, None], e.sin()[:, None]
        h = q.shape[-1] // 2
        return q * cos + torch.cat((-q[..., h:], q[..., :h]), -1) * sin


def model():
    return M().eval()


def _x(b, t, start):
    g = torch.Generator().manual_seed(b + t)
    return torch.randn(b, 2, t, 16, generator=g), torch.arange(start, start + t)[None].repeat(b, 1)


def inputs():
    return _x(2, 5, 0)


def more_inputs():
    return [_x(1, 1, 77), _x(3, 20, 4000), _x(2, 3, 60000)]
