"""Operator fault: STFT with a window shorter than n_fft, centre padding, complex output turned to magnitude."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/113067 (also #113504)"
symptom = "Exported STFT fails in ONNX Runtime when win_length < n_fft, or the frame count is fixed."
right = "Eager numerics for other signal lengths."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.hann_window(48))

    def forward(self, x):
        s = torch.stft(x, 64, 16, 48, self.w, center=True, return_complex=True)
        return torch.log1p(s.abs().pow(2))


def model():
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 400),)


def more_inputs():
    return [(torch.randn(1, 731),), (torch.sin(torch.arange(640.0) / 5).repeat(3, 1),)]
