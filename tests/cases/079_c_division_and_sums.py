"""Dtype fault: sums and quotients of int64 beyond 2**53 and 2**24."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/3821"
symptom = "Integer division goes through float32, and sums through float64."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):  # (N,4) int64
        odd = 2**40 + 1
        return (
            x.sum(-1),
            x.sum(0, keepdim=True),
            x.sum(),
            torch.div(x, 1000, rounding_mode="trunc"),
            torch.div(x, -1000, rounding_mode="floor"),
            x // 7,
            x % -7,
            x.clamp(-odd, odd),
            x.masked_fill(x < 0, odd),
            (x % 97).double() / 3,
            (x % 97).float() // 0.1,
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.tensor([[2**33 + 1, -5, 7, 2**61 + 3], [3, -(2**40), 0, -(2**62)]]),)


def more_inputs():
    return [
        (torch.tensor([[1, 2, 3, 2**63 - 1]]),),
        (torch.tensor([[16777217, -16777217, 33554433, -1]] * 3),),
    ]
