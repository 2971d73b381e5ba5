"""Shape fault: two dynamic lengths tied by a sum (new tokens = total - past)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/172903 (also #172561)"
symptom = (
    "Export stops with an internal error on derived dimensions ('L' is not defined, 'Attempted to negate')."
)
right = "Eager numerics for every split of the 16 slots."
expect = "parity"
N = 16
dynamic_shapes = ({1: Dim.AUTO}, {1: Dim.AUTO}, None)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, past, mask):  # (B,T,4), (B,P,4), (16,) with T + P == 16
        k = torch.cat([past, self.fc(x)], 1)
        s = x @ k.transpose(1, 2) + mask
        return s.softmax(-1) @ k


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(t):
    g = torch.Generator().manual_seed(t)
    return (
        torch.randn(2, t, 4, generator=g),
        torch.randn(2, N - t, 4, generator=g),
        torch.randn(N, generator=g),
    )


def inputs():
    return _x(5)


def more_inputs():
    return [_x(3), _x(15), _x(8)]
