"""Mixture of experts: Python 'if mask.any()' and a loop over the experts that were hit (data-dependent control flow)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/Tencent/YOLO-Master/issues/42 (also transformers#38518)"
symptom = (
    "Tracing keeps only the experts used by the example; torch.export stops with GuardOnDataDependentSymNode."
)
right = (
    "Clear error that points at the line of the data-dependent branch (or correct numerics for all experts)."
)
expect = "error: data-dependent control flow"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self, d=4, e=4):
        super().__init__()
        self.gate = nn.Linear(d, e)
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(e))

    def forward(self, x):
        top = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, ex in enumerate(self.experts):
            m = top == i
            if m.any():
                out[m] = ex(x[m])
        return out


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 4),)


def more_inputs():
    return [(torch.randn(30, 4) * 3,), (-torch.ones(2, 4),)]
