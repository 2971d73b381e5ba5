"""Interface fault: an argument that the forward never uses, one that is None, and a plain Python float."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/104949 (also #44299, #156673, #136179)"
symptom = (
    "Unused inputs vanish (feeding them is an error), None shifts the argument order, the float is frozen."
)
right = "Documented, stable interface: unused tensor inputs kept or reported, None and constants reported as frozen; eager numerics."
expect = "parity"
dynamic_shapes = {
    "x": {0: Dim.DYNAMIC},
    "mask": None,
    "token_type": {0: Dim.DYNAMIC},
    "gain": None,
    "bias": {0: Dim.DYNAMIC},
}


class M(nn.Module):
    def forward(self, x, mask=None, token_type=None, gain: float = 1.0, bias=None):
        y = x * gain
        if mask is not None:
            y = y * mask
        return y + bias


def model():
    return M().eval()


def _x(n):
    g = torch.Generator().manual_seed(n)
    return {
        "x": torch.randn(n, 3, generator=g),
        "mask": None,
        "token_type": torch.zeros(n, dtype=torch.long),
        "gain": 0.5,
        "bias": torch.randn(n, 1, generator=g),
    }


def inputs():
    return _x(2)


def more_inputs():
    return [_x(5)]
