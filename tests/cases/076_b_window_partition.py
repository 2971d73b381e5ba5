"""Operator fault: windows cut from dynamic axes, where a size of 0 divides by zero in a kernel."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxscript/issues/1883"
symptom = "A kernel divides by the size of an empty axis and ends the process."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):  # (B,4,T)
        b, c, t = x.shape
        flat = x.reshape(b * t, -1)
        back = flat.view(b, -1, c).reshape(b, t, c).transpose(1, 2)
        return back * 2, torch.einsum("bct,bdt->bcd", x, back), x.unflatten(1, (2, -1)).flatten(2)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 4, 5),)


def more_inputs():
    return [(torch.randn(1, 4, 8),), (torch.randn(3, 4, 2),)]
