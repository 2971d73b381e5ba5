"""The activations that ONNX has operators for, as functions of a number."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir

from aotc.rewrite.cone import Array

Sampled = Callable[[float], float]
"""The function that is looked at, at one of ``PROBES``."""
_STEP = 2.0**-6
_FAR, _LOWEST, _HIGHEST = 40.0, -3e38, 3e38
PROBES = (-1e4, -_FAR, -2.5, -1.0, -_STEP, 0.0, _STEP, 1.0, 2.5, _FAR, 1e4)
"""Where parameters are read off; the ends of the range of the type come in beside these."""
_COARSE = 0.02


@dataclasses.dataclass(frozen=True)
class Activation:
    """An operator with its attributes, or for Clip with its further inputs, as numbers."""

    op_type: str
    attributes: tuple[ir.Attr, ...] = ()
    bounds: tuple[float, ...] = ()

    def __str__(self) -> str:
        values = [a.value if isinstance(a.value, str) else f"{a.value:.6g}" for a in self.attributes]
        texts = [f"{a.name}={value}" for a, value in zip(self.attributes, values, strict=True)]
        texts += [f"{bound:.6g}" for bound in self.bounds]
        return f"{self.op_type}({', '.join(texts)})" if texts else self.op_type

    def node(self, value: ir.Value, bounds: list[ir.Value]) -> ir.Node:
        """Return a node of it on ``value``."""
        return ir.Node("", self.op_type, [value, *bounds], self.attributes, num_outputs=1)


def candidates(f: Sampled, opset: int) -> list[Activation]:
    """Return the activations of ``opset`` that come near to ``f`` at all of ``PROBES``."""
    found = []
    with np.errstate(all="ignore"):
        for op_type, recover, formula in _TABLE:
            parameters = recover(f) if _exists(op_type.partition(" ")[0], opset) else None
            if parameters is None or not np.isfinite([*parameters.values()]).all():
                continue
            if all(_near(f(x), formula(x, *parameters.values())) for x in PROBES):
                found.append(_activation(op_type, parameters))
    return found


def sampled(points: Array, values: Array) -> Sampled:
    """Return the function that has ``values`` at ``points``."""
    known = dict(zip(points.tolist(), values.tolist(), strict=True))
    return lambda x: known[x] if x in known else known[min(known) if x < 0 else max(known)]


def _activation(op_type: str, parameters: dict[str, float]) -> Activation:
    name, _, approximate = op_type.partition(" ")
    if name == "Clip":
        return Activation(name, bounds=tuple(parameters.values()))
    numbers = [ir.AttrFloat32(key, float(np.float32(value))) for key, value in parameters.items()]
    words = [ir.AttrString("approximate", approximate)] if approximate else []
    return Activation(name, (*numbers, *words))


def _exists(op_type: str, opset: int) -> bool:
    try:
        onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return False
    return True


def _near(value: float, formula: float) -> bool:
    return not np.isfinite(value) or abs(value - formula) <= _COARSE * max(1.0, abs(formula))


def _sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def _softplus(x: float) -> float:
    return float(max(x, 0.0) + np.log1p(np.exp(-abs(x))))


def _clip(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


def _elu(x: float, alpha: float) -> float:
    return float(x if x > 0 else alpha * np.expm1(x))


def _gelu_tanh(x: float) -> float:
    return float(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _none(_: Sampled) -> dict[str, float]:
    return {}


def _swish(f: Sampled) -> dict[str, float] | None:
    return {"alpha": np.log(f(1.0) / (1 - f(1.0)))} if 0 < f(1.0) < 1 else None


def _leaky(f: Sampled) -> dict[str, float] | None:
    return {"alpha": -f(-1.0)} if f(-1.0) not in (0.0, -1.0) else None


def _selu(f: Sampled) -> dict[str, float] | None:
    return {"alpha": -f(-_FAR) / f(1.0), "gamma": f(1.0)} if f(1.0) and f(-_FAR) else None


def _depth(f: Sampled) -> dict[str, float] | None:
    return {"alpha": -f(-1e4)} if f(-1e4) else None


def _hard_sigmoid(f: Sampled) -> dict[str, float] | None:
    slope = (f(_STEP) - f(-_STEP)) / (2 * _STEP)
    return {"alpha": slope, "beta": f(0.0)} if slope else None


def _bounds(f: Sampled) -> dict[str, float] | None:
    low, high = f(_LOWEST), f(_HIGHEST)
    return {"min": low, "max": high} if _LOWEST / 2 < low < high < _HIGHEST / 2 else None


_Row = tuple[str, Callable[[Sampled], dict[str, float] | None], Callable[..., float]]
_TABLE: tuple[_Row, ...] = (
    ("Relu", _none, lambda x: max(x, 0.0)),
    ("Sigmoid", _none, _sigmoid),
    ("Tanh", _none, np.tanh),
    ("Gelu", _none, lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    ("Gelu tanh", _none, _gelu_tanh),
    ("Swish", _swish, lambda x, alpha: x * _sigmoid(alpha * x)),
    ("HardSwish", _none, lambda x: x * _clip(x / 6 + 0.5, 0, 1)),
    ("Mish", _none, lambda x: x * np.tanh(_softplus(x))),
    ("Softsign", _none, lambda x: x / (1 + abs(x))),
    ("HardSigmoid", _hard_sigmoid, lambda x, alpha, beta: _clip(alpha * x + beta, 0, 1)),
    ("LeakyRelu", _leaky, lambda x, alpha: x if x > 0 else alpha * x),
    ("Elu", _depth, _elu),
    ("Selu", _selu, lambda x, alpha, gamma: gamma * _elu(x, alpha)),
    ("Clip", _bounds, _clip),
)
"""Operator (and Gelu's approximation), how its parameters are read off, and its formula in the standard.

Softplus and Celu are not here: their kernels are slower than what they would replace.
"""

NAMES = frozenset(row[0].partition(" ")[0] for row in _TABLE)
"""The operators of the table."""
