"""Operators that lose float64 on the way: ONNX keeps their numbers (slopes, epsilons) as float32 attributes.

In float64 programs they are decomposed before the export, into arithmetic whose constants keep all digits.
Reports: https://github.com/microsoft/onnxruntime/issues/32421 (float64 models in general).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

_BY_TORCH = (
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "baddbmm",
    "celu",
    "deg2rad",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "rad2deg",
    "relu6",
    "selu",
    "sinc",
    "softplus",
    "softshrink",
)
"""Decomposed as torch itself does it."""


def keep_float64(program: ExportedProgram) -> ExportedProgram:
    """Return ``program`` with the operators above decomposed where they compute in float64."""
    calls = (node for node in program.graph.nodes if node.op == "call_function")
    if not any(_is_float64(node.meta.get("val")) for node in calls):
        return program
    decomposed: ExportedProgram = program.run_decompositions(_decompositions())
    return decomposed


def _is_float64(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.dtype == torch.float64


def _decompositions() -> dict[Any, Callable[..., Any]]:
    import torch
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    table = dict(get_decompositions([getattr(aten, name) for name in _BY_TORCH if hasattr(aten, name)]))
    table[aten.sigmoid.default] = _sigmoid
    table[aten.silu.default] = _silu
    table[aten.layer_norm.default] = _layer_norm
    table[aten.rms_norm.default] = _rms_norm
    table[aten._native_batch_norm_legit_no_training.default] = _batch_norm
    table[aten.group_norm.default] = _group_norm
    return {op: _only_float64(decomposed) for op, decomposed in table.items()}


def _only_float64(decomposed: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*args: Any, **kwargs: Any) -> Any:
        return decomposed(*args, **kwargs) if any(map(_is_float64, args)) else NotImplemented

    return apply


def _sigmoid(x: torch.Tensor) -> torch.Tensor:
    """ONNX Runtime takes 1 - s(-x) for negative x: 0 where eager still has all digits."""
    return 1 / (1 + (-x).exp())


def _silu(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + (-x).exp())


def _layer_norm(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # noqa: ARG001 - aten's own signature
) -> torch.Tensor:
    axes = list(range(-len(normalized_shape), 0))
    return _affine(_standardised(x, axes, eps), weight, bias)


def _rms_norm(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    import torch

    axes = list(range(-len(normalized_shape), 0))
    small = torch.finfo(x.dtype).eps if eps is None else eps
    return _affine(x * torch.rsqrt((x * x).mean(axes, keepdim=True) + small), weight, None)


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    var: torch.Tensor,
    momentum: float,  # noqa: ARG001 - aten's own signature
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    shape = [1, -1, *[1] * (x.dim() - 2)]
    normal = (x - mean.reshape(shape)) * torch.rsqrt(var.reshape(shape) + eps)
    out = _affine(normal, *(None if p is None else p.reshape(shape) for p in (weight, bias)))
    return out, x.new_zeros(0), x.new_zeros(0)


def _group_norm(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # noqa: ARG001 - aten's own signature
) -> torch.Tensor:
    per_group = math.prod(x.shape[1:]) // groups
    normal = _standardised(x.reshape(x.shape[0], groups, per_group), [-1], eps).reshape(x.shape)
    shape = [1, -1, *[1] * (x.dim() - 2)]
    return _affine(normal, *(None if p is None else p.reshape(shape) for p in (weight, bias)))


def _standardised(x: torch.Tensor, axes: list[int], eps: float) -> torch.Tensor:
    import torch

    centred = x - x.mean(axes, keepdim=True)
    return centred * torch.rsqrt((centred * centred).mean(axes, keepdim=True) + eps)


def _affine(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias
