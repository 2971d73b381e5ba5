"""Operators by PyTorch module: counted in a graph, and grouped to as many modules as fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from aotc.ir.scopes import module_path
from aotc.ir.walk import graphs

Counts = dict[str, dict[str, int]]
"""By module path, then by operator; the path is empty for the root and for what the compiler added."""


def count_by_module(model: ir.Model) -> Counts:
    """Return how often each operator occurs, by the path of the module whose forward it comes from."""
    modules: dict[str, Counter[str]] = {}
    for node in (node for graph in graphs(model) for node in graph):
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        modules.setdefault(module_path(node), Counter())[kind] += 1
    return {path: _ordered(counts) for path, counts in modules.items()}


def total(modules: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the counts of all modules together."""
    found = Counter[str]()
    for counts in modules.values():
        found.update(counts)
    return _ordered(found)


def depth_for(paths: Iterable[str], most: int) -> int:
    """Return the greatest depth at which ``paths`` have at most ``most`` subtrees; at least 1."""
    listed = [path.split(".") for path in paths]
    deepest = max(map(len, listed), default=1)
    fitting = (d for d in range(2, deepest + 1) if len({tuple(path[:d]) for path in listed}) > most)
    return next(fitting, deepest + 1) - 1


def at_depth(modules: Mapping[str, Mapping[str, int]], depth: int) -> Counts:
    """Return the counts of whole subtrees at ``depth``."""
    found: dict[str, Counter[str]] = {}
    for path, counts in modules.items():
        found.setdefault(".".join(path.split(".")[:depth]), Counter()).update(counts)
    return {path: _ordered(counts) for path, counts in found.items()}


def grouped(modules: Mapping[str, Mapping[str, int]], most: int) -> Counts:
    """Return the counts of whole subtrees at the greatest depth that has at most ``most`` of them."""
    return at_depth(modules, depth_for(modules, most))


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """Sort by count, then name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
