"""Operators by PyTorch module, counted in a bundle's portable graph and grouped to fit a screen."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping

from aotc.bundle import OpenBundle
from aotc.cli.document import Part
from aotc.optional import how_to_install

_NEEDED = ("onnx", "onnx_ir")
Counts = dict[str, dict[str, int]]


class OperatorCounts(Part):
    """Operators of the portable graph: in all, and by the path of the module whose forward they come from.

    The path is empty for the root module and for what the compiler added.
    """

    total: dict[str, int]
    modules: Counts


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

    from aotc.ir.scopes import module_path
    from aotc.ir.walk import graphs

    model = ir.from_proto(onnx.ModelProto.FromString(bytes(content)))
    modules: dict[str, Counter[str]] = {}
    for node in (node for graph in graphs(model) for node in graph):
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        modules.setdefault(module_path(node), Counter())[kind] += 1
    return OperatorCounts(
        total=_ordered(sum(modules.values(), Counter())),
        modules={path: _ordered(counts) for path, counts in modules.items()},
    )


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """Sort by count, then name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def grouped(modules: Mapping[str, Mapping[str, int]], most: int) -> Counts:
    """Return the counts of whole subtrees at the greatest depth that has at most ``most`` of them.

    Depth 1 is always accepted.
    """
    deepest = max((path.count(".") + 1 for path in modules), default=1)
    result = _at_depth(modules, 1)
    for depth in range(2, deepest + 1):
        finer = _at_depth(modules, depth)
        if len(finer) > most:
            break
        result = finer
    return result


def _at_depth(modules: Mapping[str, Mapping[str, int]], depth: int) -> Counts:
    found: dict[str, Counter[str]] = {}
    for path, counts in modules.items():
        found.setdefault(".".join(path.split(".")[:depth]), Counter()).update(counts)
    return {path: _ordered(counts) for path, counts in found.items()}
