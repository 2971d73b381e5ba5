"""Rank fault: 0-d tensors as input, output and inner value; squeeze of a size-one axis."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/huggingface/transformers/pull/45801 (also onnx/onnx#6664)"
symptom = "Scalar tensors get an extra axis, or code that reads shape[0] crashes during export."
right = "Eager numerics with rank 0 kept; concatenation with an empty tensor changes nothing."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC}, None, None)


class M(nn.Module):
    def forward(self, x, temp, k):  # (N,3), (), () int64
        y = x / temp
        empty = y[:0]
        return (
            y.max(),
            y.mean(),
            k + 1,
            torch.cat([y, empty]),
            torch.stack([temp, y.sum()]),
            y.index_select(1, k),
            x.new_tensor(3.0),
        )


def model():
    return M().eval()


def inputs():
    return torch.arange(6.0).reshape(2, 3), torch.tensor(0.7), torch.tensor(1)


def more_inputs():
    return [
        (torch.randn(5, 3), torch.tensor(100.0), torch.tensor(2)),
        (torch.randn(3, 3), torch.tensor(-1.0), torch.tensor(0)),
    ]
