"""Mixture of experts: loop over all experts with boolean token dispatch (some experts get no token)."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/huggingface/transformers/pull/46929 (issue #38518)"
symptom = "Experts without a token at export time vanish, or an empty expert crashes at run time."
right = "Eager numerics; every expert's weights are in the compiled model."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self, d=8, e=4, k=2):
        super().__init__()
        self.k, self.gate = k, nn.Linear(d, e)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 12), nn.SiLU(), nn.Linear(12, d)) for _ in range(e)
        )

    def forward(self, x):  # (N, d)
        w, sel = self.gate(x).softmax(-1).topk(self.k, -1)
        w = w / w.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, ex in enumerate(self.experts):
            tok, slot = torch.where(sel == i)
            out = out.index_add(0, tok, ex(x[tok]) * w[tok, slot, None])
        return out


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(6, 8),)


def more_inputs():
    return [(torch.ones(3, 8),), (torch.randn(40, 8) * 4,), (torch.randn(2, 8) * 100,)]
