"""ir.Model -> the portable session file and the weights that all session files of the bundle share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import onnx_ir as ir

from aotc.backends.ort_cpu import INLINE_BYTES, PORTABLE, WEIGHTS
from aotc.bundle import EngineEntry, TensorEntry

_ALIGNMENT = 4096
"""A page: a tensor that begins on one is mapped, not copied."""


def emit_portable(model: ir.Model, directory: Path) -> EngineEntry:
    """Write ``model`` to ``directory`` as ``model.onnx`` and ``weights``.

    The initialisers are written one at a time and then point into the file, so the module's own tensors can
    be freed afterwards.

    Returns:
        The engine's entry, with where each external tensor lies.
    """
    tensors = []
    with (directory / WEIGHTS).open("xb") as file:
        for value in _initializers(model):
            tensor = value.const_value
            assert tensor is not None
            entry = write_tensor(file, str(value.name), tensor, WEIGHTS)
            value.const_value = external(entry, tensor.dtype, directory)
            tensors.append(entry)
    proto = ir.to_proto(model)
    (directory / PORTABLE).write_bytes(proto.SerializeToString(deterministic=True))
    if not tensors:
        (directory / WEIGHTS).unlink()
    return EngineEntry(file=PORTABLE, kind="portable", tensors=tuple(sorted(tensors, key=lambda t: t.name)))


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the initialisers that go to the weights file.

    Those of subgraphs stay inline: ONNX Runtime opens their files by name and never looks at the buffers that
    the runtime hands it.
    """
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and tensor.nbytes >= INLINE_BYTES and tensor.dtype != ir.DataType.STRING:
            yield value


def external(entry: TensorEntry, dtype: ir.DataType, directory: Path) -> ir.ExternalTensor:
    """Return the tensor that points to ``entry`` in a file of ``directory``."""
    shape = ir.Shape(entry.shape)
    return ir.ExternalTensor(
        entry.file, entry.offset, entry.length, dtype, shape=shape, name=entry.name, base_dir=directory
    )


def write_tensor(file: BinaryIO, name: str, tensor: ir.TensorProtocol, location: str) -> TensorEntry:
    """Append ``tensor`` to ``file`` at the next page and return its entry."""
    offset = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
    # Not truncate(): it would leave a hole, and a hole's bytes are zeros that nothing wrote.
    file.write(b"\0" * (offset - file.tell()))
    data = tensor.tobytes()
    file.write(data)
    return TensorEntry(
        name=name,
        dtype=tensor.dtype.numpy().name,
        shape=tuple(tensor.shape.numpy()),
        file=location,
        offset=offset,
        length=len(data),
    )
