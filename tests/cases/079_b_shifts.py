"""Dtype fault: shifts of negative numbers, of narrow types, and by a tensor."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/3821"
symptom = "x >> tensor has no translation; uint8 comes back as int8."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, x, n):  # (N,3) int64, (N,1) in [0,70)
        narrow = x.to(torch.int8), x.to(torch.uint8), x.to(torch.int16), x.to(torch.int32)
        return (
            x >> n,
            x << n,
            x >> 63,
            torch.bitwise_left_shift(x, 3),
            *(each >> 2 for each in narrow),
            *(each << 1 for each in narrow),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return torch.tensor([[1, -2, 300], [-(2**63), 2**62 + 1, -1]]), torch.tensor([[3], [5]])


def more_inputs():
    return [(torch.tensor([[-(2**40), 2**40, 7]] * 3), torch.tensor([[0], [63], [69]]))]
