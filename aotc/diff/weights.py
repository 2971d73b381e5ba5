"""Weights by name, compared a chunk at a time: two bundles are never in memory together."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from aotc.bundle import EngineEntry, OpenBundle
from aotc.diff.document import WeightDifference
from aotc.errors import IntegrityError

if TYPE_CHECKING:
    import onnx_ir as ir

_CHUNK = 2**23


@dataclasses.dataclass(frozen=True)
class Weight:
    """A tensor of the graph: ``length`` bytes at ``offset`` of a file, or ``inline``.

    ``digest`` is that of the whole file.
    """

    dtype: str
    shape: tuple[int, ...]
    length: int
    path: Path | None = None
    offset: int = 0
    digest: str = ""
    inline: bytes = b""

    @property
    def text(self) -> str:
        """Return dtype and shape."""
        return f"{self.dtype} [{', '.join(map(str, self.shape))}]"

    def open(self) -> BinaryIO:
        """Return a file whose position is at the first byte."""
        if self.path is None:
            return io.BytesIO(self.inline)
        file = self.path.open("rb")
        file.seek(self.offset)
        return file

    def equals(self, other: Weight) -> bool:
        """Return whether both hold the same bytes."""
        if self.length != other.length:
            return False
        if self.digest and (self.digest, self.offset) == (other.digest, other.offset):
            return True
        with self.open() as mine, other.open() as theirs:
            sizes = [min(_CHUNK, self.length - start) for start in range(0, self.length, _CHUNK)]
            return all(_read(mine, size) == _read(theirs, size) for size in sizes)


def _read(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    if len(content) < size:
        raise IntegrityError("a file of weights became shorter while it was read")
    return content


def external_weights(bundle: OpenBundle, engine: EngineEntry) -> dict[str, Weight]:
    """Return the weights that lie in files of their own; needs no package."""
    return {
        tensor.name: Weight(
            dtype=tensor.dtype,
            shape=tensor.shape,
            length=tensor.length,
            path=bundle.path / tensor.file,
            offset=tensor.offset,
            digest=bundle.description.files[tensor.file].sha256,
        )
        for tensor in engine.tensors
    }


def inline_weights(model: ir.Model) -> dict[str, Weight]:
    """Return the weights inside the graph file: small ones, and those of branches and bodies."""
    import onnx_ir as ir

    from aotc.ir.walk import graphs

    found: dict[str, Weight] = {}
    for index, graph in enumerate(graphs(model)):
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None or isinstance(tensor, ir.ExternalTensor):
                continue
            content = content_of(tensor)
            name = f"{value.name} of subgraph {index}" if index else str(value.name)
            found[name] = Weight(_dtype(tensor), tuple(tensor.shape.numpy()), len(content), inline=content)
    return found


def content_of(tensor: ir.TensorProtocol) -> bytes:
    """Return the bytes of a tensor as ONNX's raw data; those of strings one after the other."""
    import onnx_ir as ir

    if tensor.dtype == ir.DataType.STRING:
        return b"\0".join(tensor.numpy().reshape(-1).tolist())
    return tensor.tobytes()


def _dtype(tensor: ir.TensorProtocol) -> str:
    import onnx_ir as ir

    return "string" if tensor.dtype == ir.DataType.STRING else str(tensor.dtype.numpy().name)


def compare_weights(a: Mapping[str, Weight], b: Mapping[str, Weight]) -> tuple[WeightDifference, ...]:
    """Return every weight of either, equal or not."""
    return tuple(_compare(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]))


def _compare(name: str, a: Weight | None, b: Weight | None) -> WeightDifference:
    texts = {"a": a.text if a else None, "b": b.text if b else None}
    if a is None or b is None:
        return WeightDifference(name=name, status="added" if a is None else "removed", **texts)
    if a.dtype != b.dtype:
        return WeightDifference(name=name, status="requantised", **texts)
    equal = a.shape == b.shape and a.equals(b)
    return WeightDifference(name=name, status="equal" if equal else "changed", **texts)


def bytes_by_dtype(weights: Mapping[str, Weight]) -> dict[str, str]:
    """Return how many bytes of weights there are of each dtype, as texts."""
    sizes: Counter[str] = Counter()
    for weight in weights.values():
        sizes[weight.dtype] += weight.length
    return {f"weights in {dtype}": f"{size} bytes" for dtype, size in sorted(sizes.items())}
