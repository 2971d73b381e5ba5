"""The reference of an ONNX file: the file itself, untouched, without graph optimisations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from aotc.parity.onnx_float64 import WideGraph
from aotc.parity.reference import ReferenceModel
from aotc.signature import Signature

Array = np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class OnnxReference(ReferenceModel):
    """Runs an ONNX file.

    Args:
        session: Runs the file on inputs by name; returns its outputs in the file's order.
        wide: The same graph in float64. Made from the file and not from what the compiler made of it: a fault
            of the conversion would else be in the bound as well.
        signature: Names of the outputs, in the file's order.
    """

    session: Callable[[Mapping[str, Array]], list[Array]]
    wide: WideGraph
    signature: Signature
    name: ClassVar[str] = "the untouched file"

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name. Raises what ONNX Runtime raises."""
        return self._named(self.session(feeds))

    def run_float64(self, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
        """Return the outputs of a float64 run; None where an operator has no kernel for it."""
        try:
            return self._named(self.wide.run(feeds))
        except Exception:  # noqa: BLE001 - any failure means one thing: the bound falls back, and says so
            return None

    def untried(self) -> tuple[str, ...]:
        """Return a note on the branches of the file that no input so far has taken."""
        found = self.wide.untaken()
        if not found:
            return ()
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return (f"no input of the gate took the {found[0]}{more}: what is there was not compared",)

    def _named(self, outputs: list[Array]) -> dict[str, Array]:
        return {spec.name: array for spec, array in zip(self.signature.outputs, outputs, strict=True)}
