"""Fusion fault: a fused contrib op that has no kernel for the model's dtype (x * sigmoid(1.702 x) in float64)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/32421"
symptom = "QuickGeluFusion makes com.microsoft::QuickGelu for tensor(double); session creation fails from ORT_ENABLE_EXTENDED on."
right = "Eager float64 numerics: do not fuse for a dtype without a kernel."
expect = "parity"
tol = (1e-9, 1e-9)
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6).double()

    def forward(self, x):
        h = self.fc(x)
        return h * torch.sigmoid(1.702 * h)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(3, 6, dtype=torch.float64),)


def more_inputs():
    return [(torch.randn(1, 6, dtype=torch.float64) * 100,), (torch.zeros(5, 6, dtype=torch.float64),)]
