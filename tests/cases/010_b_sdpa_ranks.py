"""Attention fault: queries of rank 2, 3 and 5, and heads that broadcast."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/pull/159973"
symptom = "The exporter takes queries of rank 4 with as many heads as keys only."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 2: Dim.DYNAMIC})


class M(nn.Module):
    def forward(self, q, k):  # (B,4,T,8), (B,4,S,8)
        attend = F.scaled_dot_product_attention
        return (
            attend(q[:, 0], k[:, 0], k[:, 1], is_causal=True),
            attend(q[0, 0], k[0, 1], k[0, 2], scale=0.3),
            attend(q[:, None], k[:, None], k[:, None] + 1),
            attend(q, k[:, :1], k[:, 1:2]),
            attend(q, k, k, enable_gqa=True),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)


def more_inputs():
    return [
        (torch.randn(3, 4, 6, 8), torch.randn(3, 4, 4, 8)),
        (torch.randn(1, 4, 1, 8), torch.randn(1, 4, 9, 8)),
    ]
