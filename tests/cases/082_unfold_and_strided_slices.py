"""Shape fault: unfold, negative-step style flips, slices with tensors-of-size ends and centre crop on dynamic axes."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/microsoft/onnxscript/pull/2407 (also pytorch#139868, #28611)"
symptom = "Slices of dynamic axes are computed from the example size, or the optimiser fails comparing symbolic sizes."
right = "Eager numerics at other sizes."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)


class M(nn.Module):
    def forward(self, x):  # (B,2,H,W)
        h, w = x.shape[-2:]
        crop = x[:, :, (h - 4) // 2 : (h - 4) // 2 + 4, -3:]
        u = x.unfold(3, 4, 2)
        p = F.pad(x, (1, 2, 2, 1), mode="reflect")[:, :, 2:, :-1]
        q = F.unfold(x, (2, 3), padding=1, stride=2)
        return crop, u, p, q, x[:, :, ::3, 1::2], x.tril(-1)


def model():
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 2, 8, 9),)


def more_inputs():
    return [(torch.randn(1, 2, 11, 6),), (torch.randn(3, 2, 5, 20),)]
