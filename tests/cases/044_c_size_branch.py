"""Shape fault: a check on sizes in forward that raises."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxscript/issues/1262"
symptom = "The check leaves no trace in the graph, which answers for the sizes it was to keep out."
right = "Eager numerics, and a refusal where eager refuses."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):
        if x.shape[0] * x.shape[1] == 1:
            raise ValueError("a single entry has no deviation")
        if x.shape[1] == 1:
            raise ValueError("one column cannot be ranked")
        return (x - x.mean()) / x.std()


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 4),)


def more_inputs():
    return [(torch.randn(1, 5),)]


def bad_inputs():
    return [(torch.randn(1, 1),), (torch.randn(4, 1),)]
