"""Tensors that count how often their values are read: what must not be copied is not even looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir


class CountingTensor(ir.Tensor):
    """A tensor in memory that counts reads of its values, whole or as bytes."""

    __slots__ = ("reads",)

    def __init__(self, array: np.ndarray[Any, Any], name: str) -> None:
        super().__init__(array, name=name)
        self.reads = 0

    def numpy(self) -> np.ndarray[Any, Any]:
        self.reads += 1
        return super().numpy()

    def tobytes(self) -> bytes:
        self.reads += 1
        return super().tobytes()
