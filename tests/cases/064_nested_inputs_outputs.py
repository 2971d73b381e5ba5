"""Interface fault: list and dict inputs, nested dict/list/tuple outputs."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/140748 (also PR #98421)"
symptom = "Input names are miscounted for list inputs; nested outputs come back flat in an unexpected order."
right = "A stated flattening order, the structure rebuilt for the caller, eager numerics."
expect = "parity"
dynamic_shapes = {
    "feats": [{0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}],
    "extra": {"b": {0: Dim.DYNAMIC}, "a": {0: Dim.DYNAMIC}},
}


class M(nn.Module):
    def forward(self, feats, extra):
        s = feats[0] + feats[1]
        return {"z": s, "a": [s * extra["a"], (s - extra["b"], feats[1])], "m": {"q": s.mean()}}


def model():
    return M().eval()


def _x(n):
    g = torch.Generator().manual_seed(n)
    r = lambda: torch.randn(n, 2, generator=g)
    return {"feats": [r(), r()], "extra": {"b": r(), "a": r()}}


def inputs():
    return _x(3)


def more_inputs():
    return [_x(2), _x(6)]
