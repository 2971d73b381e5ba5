"""Eager in float64 without a second model: the same as ``module.double()``, one weight at a time."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tiny_models import Audio, Call, Cnn, Decoder, Mlp
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from aotc.parity.upcast import float64, upcast

X = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([[1, 2, 3], [0, 4, 2]])


def in_place(self: Any, x: torch.Tensor) -> torch.Tensor:
    y = self.w.clone()
    y.add_(x[0, 0]).mul_(1 / 3)
    out = torch.zeros(4, 8)
    out[1:3] += y
    return out.clamp_(-0.3).float()


def masked(self: Any, x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.transpose(1, 2)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, torch.finfo(scores.dtype).min).softmax(-1)
    return weights.to(scores.dtype) @ x.type_as(self.w)


W = nn.Parameter(torch.randn(8, generator=torch.Generator().manual_seed(1)))

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "conv": (lambda: nn.Conv1d(4, 6, 3, groups=2), (X,)),
    "transposed conv": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2), (X,)),
    "batch norm": (lambda: nn.BatchNorm1d(4), (X,)),
    "layer norm": (lambda: nn.LayerNorm(8, eps=1e-3), (X,)),
    "rms norm": (lambda: nn.RMSNorm(8), (X,)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (X,)),
    "gelu": (lambda: nn.Sequential(nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Hardswish()), (X,)),
    "attention": (
        lambda: Call(lambda self, x: F.scaled_dot_product_attention(x, x * 2, x, is_causal=True)),
        (X,),
    ),
    "multi-head attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (X, X, X)),
    "transformer layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (X,)),
    "gru": (lambda: nn.GRU(8, 5, 2, batch_first=True, bidirectional=True), (X,)),
    "lstm": (lambda: nn.LSTM(8, 5, batch_first=True), (X,)),
    "embedding": (lambda: nn.Embedding(5, 3, padding_idx=0), (IDS,)),
    "softmax": (lambda: nn.Softmax(-1), (X,)),
    "einsum": (lambda: Call(lambda self, x: torch.einsum("bij,bkj,j->bik", x, x, self.w), w=W), (X,)),
    "interpolate": (lambda: Call(lambda self, x: F.interpolate(x, scale_factor=1.7, mode="linear")), (X,)),
    "in place": (lambda: Call(in_place, w=W), (X,)),
    "masked": (lambda: Call(masked, w=W), (X,)),
    "fft": (lambda: Call(lambda self, x: torch.fft.rfft(x).abs() + torch.fft.ifft(x + 0j).real.sum()), (X,)),
    "new tensors": (lambda: Call(lambda self, x: x + torch.arange(8.0) / 3 + x.new_full((8,), 0.1)), (X,)),
    "mlp": (Mlp, (X,)),
    "cnn": (Cnn, (torch.randn(2, 3, 8, 8),)),
    "decoder": (Decoder, (IDS,)),
    "audio": (Audio, (torch.randn(1, 1, 32),)),
}


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value if item is not None for tensor in flat(item)]


@pytest.mark.parametrize("name", MODULES)
def test_equal_to_a_float64_module(name: str) -> None:
    torch.manual_seed(0)
    factory, inputs = MODULES[name]
    module = factory().eval()
    before = {key: (id(t), t.dtype, t.clone()) for key, t in module.state_dict(keep_vars=True).items()}
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            # In the reference, too, what forward creates or casts to float32 is to be float64.
            want = flat(copy.deepcopy(module).double()(*map(upcast, inputs)))
    finally:
        torch.set_default_dtype(default)
    with float64():
        got = flat(module(*map(upcast, inputs)))
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == torch.float64
        tolerance = 1e-6 if name == "in place" else 1e-12  # the reference really casts its result to float32
        torch.testing.assert_close(mine, theirs.double(), rtol=tolerance, atol=tolerance)
    for key, tensor in module.state_dict(keep_vars=True).items():
        assert (id(tensor), tensor.dtype) == before[key][:2]
        assert torch.equal(tensor, before[key][2])
    assert module(*inputs) is not None  # outside, everything is as it was
    assert torch.zeros(1).dtype == torch.float32
    assert X.dtype == torch.float32


def test_integers_stay_integers() -> None:
    with float64():
        assert (IDS + 1).dtype == torch.int64
        assert (X > 0).dtype == torch.bool
        assert X.to(torch.float16).dtype == torch.float64
        assert X.half().dtype == X.float().dtype == torch.float64


class _Largest(TorchDispatchMode):
    """Adds up the bytes of float64 results that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in flat(result) if isinstance(result, torch.Tensor | tuple | list) else []:
            if tensor.dtype == torch.float64 and tensor._base is None:
                size = tensor.nbytes
                self.alive += size
                self.peak = max(self.peak, self.alive)
                weakref.finalize(tensor.untyped_storage(), self._free, size)
        return result

    def _free(self, size: int) -> None:
        self.alive -= size


def test_one_weight_at_a_time() -> None:
    count, width = 8, 256
    module = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(count))).eval()
    one = 8 * width * width
    with _Largest() as seen, float64():
        module(torch.ones(1, width, dtype=torch.float64))
    assert one <= seen.peak <= 2.5 * one, seen.peak / one
