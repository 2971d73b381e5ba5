"""Where a node comes from, in the PyTorch module's words.

The exporter writes module scopes, class names and the stack trace of the torch op into each node's metadata.
Passes keep them with ``inherit``; messages read them with ``describe`` and ``place``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import onnx_ir as ir

SCOPES = "pkg.torch.onnx.name_scopes"
CLASSES = "pkg.torch.onnx.class_hierarchy"
STACK = "pkg.torch.onnx.stack_trace"
FX_NODE = "pkg.torch.onnx.fx_node"
ORIGIN_KEYS = (SCOPES, CLASSES, STACK, FX_NODE, "namespace")

_TORCH = re.compile(r"(^|/site-packages/)torch/")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


def module_path(node: ir.Node) -> str:
    """Return the dotted path of the module whose forward made ``node``; empty if unknown or the root.

    Metadata is data from a file: text that is not a list of names counts as unknown.
    """
    try:
        scopes = ast.literal_eval(node.metadata_props.get(SCOPES, "[]"))
    except (ValueError, SyntaxError):
        return ""
    # The last scope is the op itself, the first is the root module.
    return str(scopes[-2]) if isinstance(scopes, list) and len(scopes) >= 2 else ""


def source_line(node: ir.Node) -> str:
    """Return ``file.py:line`` of the innermost frame of the model's own code; empty if unknown."""
    return line_of_stack(node.metadata_props.get(STACK, ""))


def line_of_stack(stack: str) -> str:
    """Return ``file.py:line`` of the innermost frame of a stack trace that is not torch's own; empty if none.

    Where every frame is torch's, the innermost of all. Code that torch wrote itself has no file.
    """
    frames = [frame for frame in _FRAME.finditer(stack) if not frame["file"].startswith("<eval_with_key>")]
    own = [frame for frame in frames if not _TORCH.search(frame["file"])] or frames
    return f"{own[-1]['file'].rsplit('/', 1)[-1]}:{own[-1]['line']}" if own else ""


def describe(node: ir.Node) -> str:
    """Return the place of ``node`` for messages: ``encoder.layer.0 (modeling.py:88), Conv 'node_Conv_3'``."""
    origin, op = _origin(node), _title(node)
    return f"{origin}, {op}" if origin else op


def place(node: ir.Node) -> str:
    """Return the shortest name of where ``node`` is: its module and line, or else operator and name."""
    return _origin(node) or _title(node)


def place_in_text(model: ir.Model, text: str) -> str | None:
    """Return the place of the first node of ``model`` whose name stands in a runtime's message."""
    nodes = {node.name: node for node in model.graph.all_nodes() if node.name}
    named = [nodes[word] for word in re.findall(r"[\w.:/-]+", text) if word in nodes]
    return describe(named[0]) if named else None


def inherit(node: ir.Node, sources: Iterable[ir.Node]) -> None:
    """Give ``node`` the origin metadata of the first of ``sources`` that has any."""
    for source in sources:
        found = {key: source.metadata_props[key] for key in ORIGIN_KEYS if key in source.metadata_props}
        if found:
            node.metadata_props.update(found)
            return


def _origin(node: ir.Node) -> str:
    path, line = module_path(node), source_line(node)
    return f"{path} ({line})" if path and line else path or line


def _title(node: ir.Node) -> str:
    """Name an anonymous node by its first named output, which is how ONNX text shows it."""
    name = node.name or next((output.name for output in node.outputs if output.name), "")
    return f"{node.op_type} '{name}'"
