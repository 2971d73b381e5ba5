from __future__ import annotations

import onnx_ir as ir
import pytest

from aotc.ir.scopes import CLASSES, FX_NODE, SCOPES, STACK, describe, inherit, module_path, place, source_line

TRACE = """File "/home/me/models/net.py", line 7, in forward
    y = self.encoder(x)
File "/home/me/models/net.py", line 12, in forward
    return self.conv1(x)"""
FULL = {SCOPES: "['', 'encoder', 'encoder.conv1', 'conv2d']", STACK: TRACE, FX_NODE: "fx", CLASSES: "classes"}


def _node(name: str | None = "node_Conv_3", **metadata: str) -> ir.Node:
    return ir.Node("", "Conv", [], name=name, metadata_props=dict(metadata), outputs=[ir.Value(name="out")])


@pytest.mark.parametrize(
    ("metadata", "described", "placed"),
    [
        (FULL, "encoder.conv1 (net.py:12), Conv 'node_Conv_3'", "encoder.conv1 (net.py:12)"),
        ({SCOPES: FULL[SCOPES]}, "encoder.conv1, Conv 'node_Conv_3'", "encoder.conv1"),
        ({STACK: TRACE}, "net.py:12, Conv 'node_Conv_3'", "net.py:12"),
        ({SCOPES: "['', 'add']"}, "Conv 'node_Conv_3'", "Conv 'node_Conv_3'"),
        ({SCOPES: "not [python"}, "Conv 'node_Conv_3'", "Conv 'node_Conv_3'"),
        ({SCOPES: "{'a': 1}"}, "Conv 'node_Conv_3'", "Conv 'node_Conv_3'"),
        ({}, "Conv 'node_Conv_3'", "Conv 'node_Conv_3'"),
    ],
)
def test_places_in_the_modules_words(metadata: dict[str, str], described: str, placed: str) -> None:
    node = _node(**metadata)
    assert (describe(node), place(node)) == (described, placed)


def test_an_anonymous_node_is_called_by_its_output() -> None:
    assert describe(_node(name=None)) == "Conv 'out'"
    assert describe(_node(name="")) == "Conv 'out'"


def test_unknown_places_are_empty() -> None:
    assert module_path(_node()) == source_line(_node()) == ""


def test_the_first_source_with_an_origin_gives_all_of_it() -> None:
    node, other = _node(), _node(**{SCOPES: "['', 'late', 'op']"})
    inherit(node, [_node(unrelated="x"), _node(**FULL, rule="r"), other])
    assert node.metadata_props == FULL


def test_no_source_leaves_the_node_as_it_is() -> None:
    node = _node(**FULL)
    inherit(node, [_node()])
    assert node.metadata_props == FULL
