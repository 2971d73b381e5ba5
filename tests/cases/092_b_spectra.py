"""Operator fault: filters in the frequency domain."""

import torch
from torch import nn
from torch.export import Dim

source = "https://github.com/pytorch/pytorch/issues/113067"
symptom = "The transform back, or a product of spectra, is wrong or fails."
right = "Eager numerics."
expect = "parity"
dynamic_shapes = ({0: Dim.DYNAMIC},)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))
        self.filter = nn.Parameter(torch.randn(9))

    def forward(self, x):  # (B,16)
        spectrum = torch.fft.rfft(x)
        frames = torch.stft(x, 8, 4, window=self.window, return_complex=True)
        return (
            torch.fft.irfft(spectrum * self.filter, n=16),
            spectrum.abs() ** 2,
            frames.abs().clamp(min=1e-5).log(),
        )


def model():
    torch.manual_seed(0)
    return M().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randn(2, 16),)


def more_inputs():
    return [(torch.randn(1, 16) * 10,), (torch.randn(5, 16),)]
