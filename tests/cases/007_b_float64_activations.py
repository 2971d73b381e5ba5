"""Dtype fault: slopes and epsilons of float64 layers rounded to float32."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/32421"
symptom = "The slope of LeakyReLU and the epsilon of a normalisation come out as float32 attributes."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 8).double()
        self.norm = nn.LayerNorm(8, eps=1.3e-5).double()
        self.bn = nn.BatchNorm1d(8, eps=1.7e-3).double()

    def forward(self, x):
        h = F.leaky_relu(self.norm(self.fc(x)), 0.013)
        return F.elu(self.bn(h), 1.3), F.softplus(h, beta=1.1), F.hardtanh(h, -0.3, 0.7)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 5, dtype=torch.float64),)


def more_inputs():
    return [(torch.randn(1, 5, dtype=torch.float64) * 10,), (torch.zeros(4, 5, dtype=torch.float64),)]
