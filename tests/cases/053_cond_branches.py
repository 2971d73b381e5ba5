"""Control flow: torch.cond on a data-dependent predicate."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/145300"
symptom = "Export of torch.cond fails, or only one branch is kept."
right = "Both branches reachable, eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda t: self.a(t), lambda t: torch.tanh(self.b(t)) - 1, (x,))


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.ones(2, 4),)


def more_inputs():
    return [(-torch.ones(3, 4),), (torch.zeros(5, 4),), (torch.full((2, 4), 0.1),)]
