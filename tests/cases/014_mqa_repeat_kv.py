"""Attention fault: multi-query attention by expand+reshape of one KV head; a pass must not read it as ordinary multi-head attention."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/huggingface/optimum/pull/2326"
symptom = (
    "gpt_bigcode style multi-query models gave wrong results or shapes in batched inference after export."
)
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self, d=24, h=4):
        super().__init__()
        self.h, self.hd = h, d // h
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * self.hd), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k, v = self.kv(x).split(self.hd, -1)
        k = k[:, None].expand(b, self.h, t, self.hd)
        v = v[:, None, :, :].expand(b, self.h, t, self.hd)
        s = q @ k.transpose(-1, -2) / self.hd**0.5
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 5, 24),)


def more_inputs():
    return [(torch.randn(1, 9, 24),), (torch.randn(4, 2, 24) * 30,)]
