"""Which nodes of a program are those of an earlier one, where the source has changed since.

The exporter numbers the nodes of each operator, and the values of the graph have the names of the nodes: one
more ``aten.mul`` gives the names of all behind it to others. So behind the first node that is another one,
nodes are not matched by name but in order, by module, operator and numbers.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from aotc.ir import scopes

if TYPE_CHECKING:
    from torch import fx

_NODE = re.compile(
    r"%(?P<name>\w+) : .*?call_function\[target=(?P<target>[^\]]+)\]\((?P<arguments>.*)\)$", re.S
)
_READ = re.compile(r"%\w+")


@dataclasses.dataclass(frozen=True)
class _Node:
    """What ``torch.fx`` writes of a node, and the module that it is in."""

    name: str
    module: str
    target: str
    arguments: str

    @classmethod
    def parse(cls, text: str, module: str) -> _Node | None:
        found = _NODE.match(text)
        return cls(found["name"], module, found["target"], found["arguments"]) if found else None

    @property
    def place(self) -> tuple[str, str, tuple[str, ...]]:
        """Return what a node keeps if the numbers among its arguments change."""
        return self.module, self.target, tuple(_READ.findall(self.arguments))

    @property
    def content(self) -> tuple[str, str, str]:
        """Return what a node keeps if others get other names."""
        return self.module, self.target, _READ.sub("%", self.arguments)


def names_before(built: ir.Graph, nodes: Sequence[tuple[fx.Node, str]]) -> dict[str, str]:
    """Return the names that ``nodes`` have in an earlier program, for the ones whose match is known.

    Args:
        built: A graph that was translated from the earlier program: its nodes say what they come from.
        nodes: The nodes of the program in order, each with the path of its module.
    """
    earlier: dict[str, _Node] = {}
    for step in built:
        text = step.metadata_props.get(scopes.FX_NODE, "")
        if (parsed := _Node.parse(text, scopes.module_path(step))) is not None:
            earlier.setdefault(parsed.name, parsed)
    texts = [_Node.parse(str(node.format_node()), module) for node, module in nodes]
    same = 0
    for (node, _), now in zip(nodes, texts, strict=True):
        before = earlier.get(node.name)
        if before is not None and now is not None and before.place != now.place:
            break
        same += 1
    found = {node.name: node.name for node, _ in nodes[:same]}
    behind = [each for name, each in earlier.items() if name not in found]
    return found | _in_order(behind, [each for each in texts[same:] if each is not None])


def _in_order(earlier: Sequence[_Node], now: Sequence[_Node]) -> dict[str, str]:
    """Match nodes of equal content in order; between those, as many of the same operators on both sides."""
    a, b = [each.content for each in earlier], [each.content for each in now]
    found: dict[str, str] = {}
    for _, i, i_end, j, j_end in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        mine, theirs = now[j:j_end], earlier[i:i_end]
        if [each.target for each in mine] == [each.target for each in theirs]:
            found.update((new.name, old.name) for new, old in zip(mine, theirs, strict=True))
    return found
