"""Shape fault: interpolate to a size computed from another tensor's dynamic shape."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/124884"
symptom = "Export with dynamic height/width fails or bakes the example size when interpolate is used."
right = "Eager numerics for odd and even sizes, up and down."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.Conv2d(2, 4, 3, stride=2, padding=1)

    def forward(self, x):
        y = self.d(x)
        a = F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)
        b = F.interpolate(y, scale_factor=1.7, mode="nearest")
        c = F.interpolate(x, size=(x.shape[2] // 2, 7), mode="nearest-exact")
        return a + x.mean(1, keepdim=True), b, c


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 2, 12, 10),)


def more_inputs():
    return [(torch.randn(1, 2, 13, 9),), (torch.randn(3, 2, 30, 31),)]
