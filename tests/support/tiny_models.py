"""Tiny models that the tests of export, parity and whole builds share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.export import Dim

from aotc.export.source import Source


class Call(nn.Module):
    """forward is the given function; keyword arguments become parameters, buffers or modules."""

    def __init__(self, function: Callable[..., Any], **state: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16, eps=1e-3)
        self.down = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.norm(self.up(x)), approximate="tanh"))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(6, eps=1e-3)
        self.point = nn.Conv2d(6, 4, 1, bias=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn(self.conv(x)))
        x = F.max_pool2d(self.point(x), 3, 1, 1)
        return self.head(x.mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.fc = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        future = torch.ones(seq, seq, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, seq, width))
        return x + self.proj(F.gelu(self.fc(x)))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.positions = nn.Embedding(12, 16)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(16, 20, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Audio(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 6, 5, stride=2, padding=2)
        self.second = nn.Conv1d(6, 6, 3, padding=2, dilation=2, groups=2)
        self.out = nn.ConvTranspose1d(6, 1, 4, stride=2, padding=1)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        x = torch.log1p(self.first(wave).abs())
        return torch.tanh(self.out(F.leaky_relu(self.second(x), 0.2) + x))


def seeded(factory: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """Return the module in eval mode, with running statistics that are not those of a new one."""
    torch.manual_seed(seed)
    module = factory().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2.0)
    return module


def source(module: nn.Module, inputs: Any, dynamic_shapes: Any = None, **fields: Any) -> Source:
    return Source(
        name="tiny", model=lambda: module.eval(), inputs=inputs, dynamic_shapes=dynamic_shapes, **fields
    )


def mlp(seed: int = 0) -> Source:
    module = seeded(Mlp, seed)
    return source(module, (torch.randn(3, 8),), ({0: Dim("batch")},), profiles=[{"batch": (1, 3, 8)}])


def cnn(seed: int = 0) -> Source:
    module = seeded(Cnn, seed)
    return source(module, (torch.randn(2, 3, 9, 9),), ({0: Dim("batch")},), profiles=[{"batch": (1, 2, 4)}])


def decoder(seed: int = 0) -> Source:
    module = seeded(Decoder, seed)
    ids = torch.randint(0, 20, (2, 5))
    shapes = ({0: Dim("batch"), 1: Dim("seq")},)
    return source(module, (ids,), shapes, profiles=[{"batch": (1, 2, 3), "seq": (1, 5, 12)}])


def audio(seed: int = 0) -> Source:
    module = seeded(Audio, seed)
    return source(module, (torch.randn(2, 1, 32),), ({2: Dim("time")},), profiles=[{"time": (4, 32, 64)}])
