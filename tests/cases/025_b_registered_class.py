"""Interface fault: an argument and a result of a class that was registered with torch's pytree."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/155862"
symptom = "Only tuples, lists, dicts and dataclasses are taken apart."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = {"x": {0: Dim.DYNAMIC}, "state": [{0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}]}


class State:
    def __init__(self, first, second, label):
        self.first, self.second, self.label = first, second, label


torch.utils._pytree.register_pytree_node(
    State,
    lambda state: ([state.first, state.second], state.label),
    lambda children, label: State(*children, label),
)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, state):
        assert state.label == "kept"
        h = torch.tanh(self.fc(x) + state.first)
        return h * state.second, State(h, state.second + 1, "kept")


def model():
    torch.manual_seed(0)
    return M().eval()


def _x(b):
    g = torch.Generator().manual_seed(b)
    x, first, second = (torch.randn(b, 4, generator=g) for _ in range(3))
    return {"x": x, "state": State(first, second, "kept")}


def inputs():
    return _x(2)


def more_inputs():
    return [_x(3), _x(1)]
