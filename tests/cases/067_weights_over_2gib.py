"""Size fault: more than 2 GiB of weights (protobuf limit), one tensor alone being over 2 GiB."""

import torch
from torch import nn

source = "https://github.com/onnx/onnx/issues/3275 (also onnxruntime#17098, #11072)"
symptom = "Some pass serialises the whole model in memory and dies on the 2 GB protobuf limit."
right = (
    "Eager numerics, weights in external data; every pass must work on the file or keep the weights aside."
)
expect = "parity"
heavy = True  # about 2.2 GiB of weights, 5 to 10 GB of memory while compiling
dynamic_shapes = None


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Parameter(torch.zeros(590_000, 1000), requires_grad=False)  # 2.2 GiB
        self.emb[::1000] = torch.arange(1000.0)
        self.fc = nn.Linear(1000, 4)

    def forward(self, i):
        return self.fc(self.emb[i])


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    return (torch.tensor([0, 1]),)


def more_inputs():
    return [(torch.tensor([589_000, 589_999]),)]
