"""Naming fault: an input is returned unchanged (and once more as a second output)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/173076"
symptom = "The graph input gets the name of the output; feeding it by its own name fails."
right = "Input keeps its name, outputs exist separately, values equal."
expect = "parity"
export_kwargs = {"input_names": ["wave", "scale"], "output_names": ["same", "scaled", "again", "again2"]}
dynamic_shapes = ({0: Dim.DYNAMIC}, None)


class M(nn.Module):
    def forward(self, wave, scale):
        y = wave * scale
        return wave, y, y, wave


def model():
    return M().eval()


def inputs():
    return torch.arange(4.0), torch.tensor([2.0])


def more_inputs():
    return [(torch.arange(7.0), torch.tensor([-1.0]))]
