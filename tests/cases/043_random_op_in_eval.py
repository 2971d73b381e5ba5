"""Determinism fault: the forward draws random numbers also in eval mode (noise, sampling)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/156811 (also NVIDIA/TensorRT#4497)"
symptom = (
    "Noise cannot be seeded after export; each run and each engine differs, so parity cannot be checked."
)
right = "Clear error or an explicit opt-in naming the random operator; a parity check must not report success by luck."
expect = "error: random operator in the graph (aten.randn_like)"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.lv = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x):
        std = torch.exp(0.5 * self.lv(x))
        return self.mu(x) + std * torch.randn_like(std)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(4, 6),)


def more_inputs():
    return [(torch.randn(2, 6),)]
