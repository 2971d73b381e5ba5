"""Reading an ONNX file that somebody else made: nothing in it is believed before it was checked.

Everything that parses a foreign file is here, and nothing here runs a model.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from aotc.errors import RefusedError, UsageError

LARGEST = 2**31 - 1
"""Bytes of one protobuf message; larger models keep their weights in other files."""
MOST_NODES = 1_000_000
"""Nodes of a graph after its functions are inlined."""
_KEYS = frozenset({"location", "offset", "length", "checksum", "basepath"})
_ADDRESS_MARK = "_ORT_MEM_ADDR_"
"""In ONNX Runtime, a location with this mark is an address in memory."""


def read_onnx(path: Path) -> onnx.ModelProto:
    """Parse and check the file at ``path``; no file that it refers to is opened unless all may be.

    Raises:
        UsageError: There is no such file.
        RefusedError: It is truncated, no ONNX file, invalid, or refers to files that it may not use.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}", slug="source")
    if path.stat().st_size > LARGEST:
        raise _refused("is larger than 2 GiB, which no ONNX file can be", path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(path.read_bytes())
    except DecodeError as error:
        hint = "export it again, or fetch it again"
        raise _refused("is truncated or no ONNX file: it does not parse", path, hint=hint) from error
    if not proto.HasField("graph") or not proto.graph.output:
        raise _refused("holds no graph with outputs: it is empty or no ONNX file", path)
    if not _is_text(proto):
        raise _refused("has names that are not UTF-8", path)
    for owner, tensor in _tensors(proto):
        _check_tensor(owner, tensor, path)
    if sparse := next(_sparse(proto.graph), None):
        raise _refused(f"keeps '{sparse}' as a sparse tensor, which the compiler does not read", path)
    _check_functions(proto, path)
    try:
        # By path and not by value: the checker is C++ and would be given a copy of the weights.
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        raise _refused(f"is not valid: {_first_lines(error)}", path) from error
    return proto


def _refused(what: str, path: Path, *, slug: str = "onnx-file", hint: str | None = None) -> RefusedError:
    return RefusedError(f"the file {what}", slug=slug, where=str(path), hint=hint)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:2])[:300] or type(error).__name__


def _is_text(message: Message) -> bool:
    """Return whether all strings in ``message`` are UTF-8; protobuf gives the others as bytes."""
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            parts = [value] if isinstance(value, Message) else value
            if not all(_is_text(part) for part in parts if not isinstance(part, onnx.TensorProto)):
                return False
        elif field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, str | bytes) else value
            if not all(isinstance(text, str) for text in texts):
                return False
    return True


def _tensors(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield every tensor of the file with a name for it in messages."""
    yield from _tensors_of_graph(proto.graph)
    for training in proto.training_info:
        yield from _tensors_of_graph(training.initialization)
        yield from _tensors_of_graph(training.algorithm)
    for function in proto.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for sparse in graph.sparse_initializer:
        yield from ((sparse.values.name, sparse.values), (sparse.values.name, sparse.indices))
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Any) -> Iterator[tuple[str, onnx.TensorProto]]:
    for node in nodes:
        owner = f"{node.op_type} '{node.name or next(iter(node.output), '')}'"
        for attribute in node.attribute:
            dense = [*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])]
            for sparse in [
                *attribute.sparse_tensors,
                *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
            ]:
                dense += [sparse.values, sparse.indices]
            yield from ((owner, tensor) for tensor in dense)
            for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
                yield from _tensors_of_graph(graph)


def _sparse(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of sparse tensors."""
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                yield node.name or node.output[0]
            for inner in [attribute.g, *attribute.graphs]:
                yield from _sparse(inner)


def _check_tensor(owner: str, tensor: onnx.TensorProto, path: Path) -> None:
    if any(dim < 0 for dim in tensor.dims):
        raise _refused(f"gives the tensor '{owner}' a negative size: {list(tensor.dims)}", path)
    if not isinstance(tensor.name, str):
        raise _refused("has names that are not UTF-8", path)
    size = _bytes_of(tensor)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        _check_external(owner, {entry.key: entry.value for entry in tensor.external_data}, size, path)
    elif tensor.HasField("raw_data") and size is not None and len(tensor.raw_data) != size:
        raise _refused(
            f"holds {len(tensor.raw_data)} bytes for the tensor '{owner}' of {size}: {list(tensor.dims)}",
            path,
        )


def _bytes_of(tensor: onnx.TensorProto) -> int | None:
    """Return the bytes that the shape and the type call for; None for strings and unknown types."""
    import onnx_ir as ir

    try:
        bits = int(ir.DataType(tensor.data_type).bitwidth)
    except (ValueError, TypeError):
        return None
    return -(-math.prod(map(int, tensor.dims)) * bits // 8)


def _check_external(owner: str, entries: Mapping[str, str], size: int | None, path: Path) -> None:
    """Refuse a tensor in another file unless that is a plain file beside or below ``path`` that holds it."""

    def refused(what: str) -> RefusedError:
        return _refused(f"keeps the tensor '{owner}' in a file {what}", path, slug="external-data")

    location = entries.get("location", "")
    if unknown := sorted(entries.keys() - _KEYS):
        raise refused(f"with the unknown key {unknown[0]!r}")
    if why := _why_not_inside(location) or _why_not_plain(path.parent, location):
        raise _refused(
            f"has external data outside the model's folder: of the tensor '{owner}', {location!r} {why}",
            path,
            slug="external-data",
            hint="keep the weights in plain files beside the model",
        )
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size or 0))
    except ValueError:
        raise refused("at an offset or length that is no number") from None
    if size is None or length != size:
        raise refused(f"as {length} bytes, and its shape and type call for {size}")
    available = (path.parent / location).lstat().st_size
    if offset < 0 or offset + length > available:
        raise refused(f"beyond its end: {location!r} has {available} bytes, not {offset} + {length}")


def _why_not_inside(location: str) -> str | None:
    """Return why ``location`` is no relative path that stays in the folder, or None if it is one."""
    if not location or any(ord(char) < 32 for char in location):
        return "is empty or has control characters"
    if _ADDRESS_MARK in location:
        return "is an address in memory"
    windows = PureWindowsPath(location)
    if PurePosixPath(location).is_absolute() or windows.drive or windows.root or location.startswith("~"):
        return "is absolute"
    if "\\" in location:
        return "has a backslash"
    return "leaves the folder" if ".." in PurePosixPath(location).parts else None


def _why_not_plain(folder: Path, location: str) -> str | None:
    """Return why the file at ``location`` is no plain file with one name, or None if it is one."""
    file = folder
    for part in PurePosixPath(location).parts:
        file = file / part
        if file.is_symlink():
            return "is or goes through a symbolic link"
    try:
        found = file.lstat()
    except OSError:
        return "is not in it"
    if not stat.S_ISREG(found.st_mode):
        return "is no plain file"
    return "is a hard link" if found.st_nlink != 1 else None


def _check_functions(proto: onnx.ModelProto, path: Path) -> None:
    """Refuse functions that call themselves or grow beyond measure when they are inlined.

    A file of 1.5 KB can hold 25 functions that each call the next one twice.
    """
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    sizes: dict[tuple[str, str, str], int] = {}
    open_calls: set[tuple[str, str, str]] = set()

    def nodes_of(key: tuple[str, str, str]) -> int:
        if key in open_calls:
            raise _refused(f"has the function '{key[1]}', which calls itself", path)
        if key not in sizes:
            open_calls.add(key)
            sizes[key] = count(functions[key].node)
            open_calls.remove(key)
        return sizes[key]

    def count(nodes: Any) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            total += nodes_of(key) if key in functions else 1
            for attribute in node.attribute:
                total += sum(count(graph.node) for graph in [attribute.g, *attribute.graphs])
        return total

    if count(proto.graph.node) > MOST_NODES:
        raise _refused(f"has more than {MOST_NODES:,} nodes when its functions are inlined", path)
