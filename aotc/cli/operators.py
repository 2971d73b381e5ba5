"""Operators by PyTorch module, counted in a bundle's portable graph."""

from __future__ import annotations

import importlib.util

from aotc.bundle import OpenBundle
from aotc.cli.document import Part
from aotc.optional import how_to_install

_NEEDED = ("onnx", "onnx_ir")


class OperatorCounts(Part):
    """Operators of the portable graph: in all, and by the path of the module whose forward they come from.

    The path is empty for the root module and for what the compiler added.
    """

    total: dict[str, int]
    modules: dict[str, dict[str, int]]


def count_operators(bundle: OpenBundle) -> tuple[OperatorCounts | None, str | None]:
    """Return the counts, or None and the reason why there are none."""
    file = next((e.file for e in bundle.description.engines if e.kind == "portable"), None)
    if file is None:
        return None, "operators are not shown: this bundle has no portable graph"
    if missing := [name for name in _NEEDED if not _installed(name)]:
        return None, f"operators are not shown: {missing[0]} is not installed; {how_to_install('build')}"
    return _count(bundle.buffer(file)), None


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def _count(content: memoryview) -> OperatorCounts:
    import onnx
    import onnx_ir as ir

    from aotc.ir.operators import count_by_module, total

    modules = count_by_module(ir.from_proto(onnx.ModelProto.FromString(bytes(content))))
    return OperatorCounts(total=total(modules), modules=modules)
