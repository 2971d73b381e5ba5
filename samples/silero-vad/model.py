"""A trained voice detector that streams: the 16 kHz half of Silero VAD, with the package's own weights."""

import functools
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.export import Dim

RATE, CHUNK, CONTEXT, HIDDEN = 16_000, 512, 64, 128
CHUNKS = 40
"""Length of a clip: 1.28 seconds."""
MAX_BATCH = 16

BATCH = Dim("batch")
dynamic_shapes = {name: {0: BATCH} for name in ("audio", "context", "h", "c")}
profiles = [{"batch": (1, 1, MAX_BATCH)}]
state = {"context": "output.context", "h": "output.h", "c": "output.c"}


class VoiceDetector(nn.Module):
    """A chunk of audio, and what the chunk before left, to the probability of speech."""

    def __init__(self) -> None:
        super().__init__()
        self.stft = nn.Conv1d(1, 258, 256, stride=128, bias=False)
        sizes = [(129, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)]
        self.encoder = nn.ModuleList(nn.Conv1d(i, o, 3, stride, padding=1) for i, o, stride in sizes)
        self.rnn = nn.LSTMCell(128, HIDDEN)
        self.head = nn.Conv1d(HIDDEN, 1, 1)

    def forward(
        self, audio: torch.Tensor, context: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Judge the next 32 ms of a stream.

        Args:
            audio: (batch, 512) float32, from -1.0 to 1.0 at 16 kHz.
            context: (batch, 64) float32, the last samples before; zeros at the start of a stream.
            h: (batch, 128) float32, hidden state of the LSTM; zeros at the start.
            c: (batch, 128) float32, its cell state; zeros at the start.

        Returns:
            probability: (batch,) float32 of speech; and context, h, c for the next call.
        """
        samples = torch.cat([context, audio], dim=1)
        padded = nn.functional.pad(samples[:, None], (0, 64), mode="reflect")
        real, imaginary = self.stft(padded).chunk(2, dim=1)
        x = (real.square() + imaginary.square()).sqrt()
        for convolution in self.encoder:
            x = convolution(x).relu()
        h, c = self.rnn(x.squeeze(2), (h, c))
        probability = self.head(h.relu().unsqueeze(2)).sigmoid().flatten()
        return {"probability": probability, "context": samples[:, -CONTEXT:], "h": h, "c": c}


@functools.cache
def shipped() -> torch.jit.ScriptModule:
    """The package's TorchScript model; the package itself is not imported: that would take torchaudio."""
    found = find_spec("silero_vad")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "this sample takes its weights from a package that is not installed here: "
            "pip install --no-deps silero-vad"
        )
    return torch.jit.load(Path(found.origin).parent / "data" / "silero_vad.jit")


def model() -> nn.Module:
    """With the TorchScript file's weights; the package's safetensors file is of another training."""
    weights = {
        key.replace("forward_basis_buffer", "weight")
        .replace("reparam_conv.", "")
        .replace("decoder.rnn", "rnn")
        .replace("decoder.decoder.2", "head"): value
        for key, value in shipped()._model.state_dict().items()
    }
    net = VoiceDetector()
    net.load_state_dict(weights)
    return net.eval()


def voice(pitch: float) -> np.ndarray:
    """A synthetic voice (CHUNKS * CHUNK,): a gliding pitch, moving formants, four syllables a second."""
    time = np.arange(CHUNKS * CHUNK) / RATE
    glide = pitch * (1 + 0.15 * np.sin(2 * np.pi * 1.3 * time))
    phase = 2 * np.pi * np.cumsum(glide) / RATE
    formants = [(500 + 250 * np.sin(13 * time), 80), (1500 + 500 * np.sin(11 * time), 120), (2500, 160)]
    wave = np.zeros_like(time)
    for k in range(1, 40):
        loudness = sum(1 / (1 + ((k * glide - centre) / width) ** 2) for centre, width in formants)
        wave += loudness / k**0.5 * np.sin(k * phase)
    return wave / np.abs(wave).max() * np.sin(2 * np.pi * 4 * time).clip(0, 1) ** 0.5


@functools.cache
def clips() -> np.ndarray:
    """Two voices, noise alone, a voice that sets in: (4, CHUNKS, CHUNK) float32, with a little noise."""
    rng = np.random.default_rng(0)
    low, high, silence = voice(120.0), voice(200.0), np.zeros(CHUNKS * CHUNK)
    late = np.where(np.arange(low.size) < low.size // 2, 0.0, low)
    waves = 0.3 * np.stack([low, high, silence, late])
    return (waves + 0.005 * rng.standard_normal(waves.shape)).astype(np.float32).reshape(4, CHUNKS, CHUNK)


def start(batch: int) -> list[np.ndarray]:
    """The state at the start of a stream: context, h, c."""
    return [np.zeros((batch, size), np.float32) for size in (CONTEXT, HIDDEN, HIDDEN)]


def inputs() -> tuple[torch.Tensor, ...]:
    """The first chunk of each clip, and the state at the start."""
    return tuple(map(torch.from_numpy, (clips()[:, 0], *start(4))))


def more_inputs() -> list[tuple[torch.Tensor, ...]]:
    """The loudest chunks of one clip, and silence."""
    loud = clips()[0, 24:40]
    return [
        tuple(map(torch.from_numpy, (loud, loud[:, -CONTEXT:], *start(16)[1:]))),
        tuple(map(torch.from_numpy, (np.zeros((1, CHUNK), np.float32), *start(1)))),
    ]


@functools.cache
def expected() -> np.ndarray:
    """The shipped model's own probabilities for the clips, (CHUNKS, 4)."""
    net = shipped()
    net.reset_states()
    with torch.no_grad():
        return np.stack([net(torch.from_numpy(clips()[:, i]), RATE)[:, 0].numpy() for i in range(CHUNKS)])


def accuracy(run: Callable[..., dict[str, np.ndarray]]) -> float:
    """Minus the mean distance of the probability to the shipped model's, over whole clips (0.0 is best)."""
    context, h, c = start(4)
    errors = []
    for i, want in enumerate(expected()):
        step = run(clips()[:, i], context, h, c)
        context, h, c = step["context"], step["h"], step["c"]
        errors.append(np.abs(step["probability"] - want).mean())
    return 0.0 - float(np.mean(errors))  # 0.0, not -0.0, where they are equal
