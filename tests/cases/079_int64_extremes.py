"""Dtype fault: int64 values outside int32 (mask sentinels, ids, timestamps) that a backend clamps to int32."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/microsoft/onnxruntime/issues/3821 (also NVIDIA/TensorRT#620, optimum#627)"
symptom = "'One or more weights outside the range of INT32 was clamped' - results change silently."
right = "Eager numerics; a backend without int64 must refuse or prove that the values fit."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("salt", torch.tensor([1, 2**33 + 5, -(2**40), 2**62]))

    def forward(self, ids):  # (N,4) int64
        h = ids * 2654435761 + self.salt
        m = ids.masked_fill(ids < 0, torch.iinfo(torch.int64).max)
        return h % 1000, m.min(-1).values, (ids.sum(-1) >> 20) & 0xFF, h.float(), ids.clamp(max=2**35)


def model():
    return M().eval()


def inputs():
    return (torch.tensor([[1, 2, 3, 4], [5, -6, 7, 8]]),)


def more_inputs():
    return [(torch.tensor([[2**40, 2**41, -1, 0]]),), (torch.tensor([[2**62, 2**62, -(2**62), 7]] * 3),)]
