"""Operator fault: einops rearrange/reduce and einsum with an ellipsis under dynamic shapes (needs the package einops)."""

import torch
from torch import nn
from torch.export import Dim
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange

source = "https://github.com/microsoft/onnxscript/issues/1883 (also pytorch#137629, #124625)"
symptom = (
    "Symbolic sizes break the einops cache; einsum with many operands is right only for the example shape."
)
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_heads = Rearrange("b l (h c) -> b h l c", h=3)
        self.w = nn.Parameter(torch.randn(4, 4, 3))
        self.basis = nn.Parameter(torch.randn(3, 2, 2))

    def forward(self, x):  # (B,12,T,2)
        t = rearrange(x, "b (g k) t c -> b t (k g c)", g=4)
        h = self.to_heads(t)
        e = torch.einsum(
            "ghk,kmn,...hn->...gm", self.w, self.basis, rearrange(x, "b (x n) t c -> b n t x c", x=4)
        )
        r = reduce(x, "b (p q) t c -> b p c", "mean", q=3) + repeat(x[:, 0, 0], "b c -> b p c", p=4)
        return h, e, r, torch.einsum("b...i,bi...->b...", x, x.transpose(1, -1).transpose(2, 3))


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 12, 5, 2),)


def more_inputs():
    return [(torch.randn(1, 12, 8, 2),), (torch.randn(4, 12, 3, 2),)]
