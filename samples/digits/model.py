"""A small convolutional network, trained here on scikit-learn's handwritten digits."""

import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.export import Dim

MAX_BATCH = 64

dynamic_shapes = {"images": {0: Dim("batch")}}
profiles = [{"batch": (1, 1, MAX_BATCH)}]


class DigitClassifier(nn.Module):
    """Images to the logits of the ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *self.block(1, 16), *self.block(16, 32), nn.MaxPool2d(2), *self.block(32, 64), nn.MaxPool2d(2)
        )
        self.head = nn.Linear(64 * 2 * 2, 10)

    @staticmethod
    def block(channels_in: int, channels_out: int) -> list[nn.Module]:
        """Convolution, batch norm, ReLU: in eval mode the first two are one convolution."""
        convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        return [convolution, nn.BatchNorm2d(channels_out), nn.ReLU()]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Classify a batch of images.

        Args:
            images: (batch, 1, 8, 8) float32, ink from 0.0 to 1.0.

        Returns:
            (batch, 10) float32 logits.
        """
        return self.head(self.features(images).flatten(1))


@functools.cache
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (n, 1, 8, 8) float32 to train with and held out, then their digits (n,) int64."""
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=0.3, random_state=0, stratify=labels
    )
    return train_x, test_x, train_y, test_y


@functools.cache
def trained_weights() -> dict[str, torch.Tensor]:
    """Train from a fixed seed on one thread, so that every process gets the same weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return train(DigitClassifier())
    finally:
        torch.set_num_threads(threads)


def train(net: nn.Module, epochs: int = 12, batch: int = 64) -> dict[str, torch.Tensor]:
    train_x, _, train_y, _ = data()
    images, labels = torch.from_numpy(train_x), torch.from_numpy(train_y)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    return net.state_dict()


def model() -> nn.Module:
    net = DigitClassifier()
    net.load_state_dict(trained_weights())
    return net.eval()


def inputs() -> tuple[torch.Tensor]:
    return (torch.from_numpy(data()[1][:4]),)


def more_inputs() -> list[tuple[torch.Tensor]]:
    images = torch.from_numpy(data()[1])
    return [
        (images[:1],),
        (images[:7],),
        (images[-MAX_BATCH:],),
        (torch.zeros(2, 1, 8, 8),),  # blank paper
        (torch.ones(3, 1, 8, 8),),  # all ink
    ]


def calibration() -> Iterator[tuple[torch.Tensor]]:
    """The first 512 training images, in batches of 64."""
    for batch in torch.from_numpy(data()[0][:512]).split(MAX_BATCH):
        yield (batch,)


def accuracy(run: Callable[..., np.ndarray]) -> float:
    """The share of held-out images whose digit has the largest logit (1.0 is best)."""
    _, images, _, labels = data()
    batches = [images[i : i + MAX_BATCH] for i in range(0, len(images), MAX_BATCH)]
    digits = np.concatenate([run(batch).argmax(axis=1) for batch in batches])
    return float(np.mean(digits == labels))
