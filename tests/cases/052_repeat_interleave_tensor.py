"""Data-dependent shape: repeat_interleave with a tensor of repeats (zeros included)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/73071 (also #128505, #100429)"
symptom = "Exported loop/sequence form warns, or the model is invalid with dynamic axes."
right = "Eager numerics for any repeats, or a clear refusal of the data-dependent length."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, x, n):
        return torch.repeat_interleave(x, n, dim=0), x.repeat_interleave(2, dim=1), x.repeat_interleave(3)


def model():
    return M().eval()


def inputs():
    return (torch.arange(8.0).reshape(4, 2), torch.tensor([1, 2, 3, 1]))


def more_inputs():
    return [
        (torch.arange(6.0).reshape(3, 2), torch.tensor([0, 4, 0])),
        (torch.arange(10.0).reshape(5, 2), torch.tensor([2, 2, 2, 2, 2])),
    ]
