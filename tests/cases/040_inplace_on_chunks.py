"""In-place fault: slices of a list of tensors overwritten in place, then concatenated (detector head)."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/74801 (also #80271)"
symptom = "Updates made through a slice or chunk view are lost or make export fail."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, a, b):  # (B,6,4,4), (B,6,2,2)
        out = []
        for x, s in zip((a * 1, b * 1), (8, 16)):
            xy, wh, obj = x.chunk(3, 1)
            wh.exp_().mul_(s)
            xy[:, 0] += 3
            x[:, 4:] = obj.sigmoid()
            out.append(x.flatten(2))
        return torch.cat(out, 2).permute(0, 2, 1)


def model():
    return M().eval()


def _x(b):
    g = torch.Generator().manual_seed(b)
    return torch.randn(b, 6, 4, 4, generator=g), torch.randn(b, 6, 2, 2, generator=g)


def inputs():
    return _x(2)


def more_inputs():
    return [_x(1), _x(5)]
