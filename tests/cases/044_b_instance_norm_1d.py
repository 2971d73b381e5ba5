"""Operator fault: eager refuses one entry a channel, over one axis and over three."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxscript/issues/1262"
symptom = "The engine returns numbers where eager raises."
right = "Eager numerics, and a refusal where eager refuses."
expect = "parity"
dynamic_shapes = (
    {0: Dim.DYNAMIC, 2: Dim.DYNAMIC},
    {0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC, 4: Dim.DYNAMIC},
)


class M(nn.Module):
    def forward(self, x, y):  # (B,4,T), (B,2,A,B,C)
        return F.instance_norm(x, eps=1e-3), F.instance_norm(y).amax((2, 3, 4))


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return torch.randn(2, 4, 6), torch.randn(2, 2, 3, 4, 2)


def more_inputs():
    return [(torch.randn(3, 4, 2) * 50 + 9, torch.randn(3, 2, 2, 2, 5))]


def bad_inputs():
    return [
        (torch.randn(2, 4, 1), torch.randn(2, 2, 3, 4, 2)),
        (torch.randn(2, 4, 6), torch.randn(2, 2, 1, 1, 1)),
    ]
