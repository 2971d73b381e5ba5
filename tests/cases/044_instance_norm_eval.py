"""Operator fault: InstanceNorm without running stats in eval mode comes out as BatchNormalization in training mode."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxscript/issues/1262"
symptom = "The exported node has training_mode=1 and backends refuse it or mix the batch."
right = "Eager numerics per sample and channel; group norm and affine variants too."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.InstanceNorm2d(6)
        self.b = nn.InstanceNorm2d(6, affine=True, track_running_stats=True)
        self.c = nn.GroupNorm(3, 6, eps=1e-3)
        self.b.running_mean.copy_(torch.arange(6.0))
        self.b.weight.data = torch.randn(6)

    def forward(self, x):
        return self.a(x), self.b(x), self.c(x)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 6, 5, 4),)


def more_inputs():
    return [(torch.randn(1, 6, 3, 9),), (torch.randn(4, 6, 8, 8) * 100 + 50,), (torch.zeros(3, 6, 4, 4),)]
