"""Interface fault: forward returns an unregistered dataclass (ModelOutput-like)."""

from dataclasses import dataclass
import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/pull/96935"
symptom = "Custom output classes are unknown to the pytree and stop the export."
right = "Handled field by field, or a clear error that says how to register or wrap the class."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


@dataclass
class Out:
    logits: torch.Tensor
    hidden: torch.Tensor


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        return Out(logits=self.b(h), hidden=h)


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 4),)


def more_inputs():
    return [(torch.randn(5, 4),)]
