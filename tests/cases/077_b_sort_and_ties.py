"""Operator fault: stable sorts with ties, in every dtype, both ways."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/13681"
symptom = "sort(stable=True) has no translation; TopK takes no booleans and no narrow integers."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):  # (B,T) int64 in [0,4)
        results = []
        for dtype in (
            torch.bool,
            torch.uint8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.float32,
            torch.float64,
        ):
            results += x.to(dtype).sort(dim=-1, stable=True)
            results += x.to(dtype).sort(dim=0, descending=True, stable=True)
        return (*results, x.argsort(dim=-1, stable=True), x.float().sort(stable=True).values.topk(1).values)


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b, t):
    return (torch.randint(0, 4, (b, t), generator=torch.Generator().manual_seed(b + t)),)


def inputs():
    return _x(2, 5)


def more_inputs():
    return [_x(3, 9), (torch.zeros(2, 3, dtype=torch.long),), (torch.tensor([[3, 2, 1, 0]]),)]
