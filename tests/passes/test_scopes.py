"""Node metadata is not in ONNX text: what a pass makes says where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest
from aotc_passes import PASSES

from aotc.ir import scopes
from aotc.ir.walk import graphs
from aotc.oracle import Oracle
from aotc.rewrite import Context
from aotc.rewrite.registry import parse_pass
from aotc.testing import Case, load_case, parse_cases

FILES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
CHANGED = [case for path in FILES for case in parse_cases(path) if case.after is not None]


@pytest.mark.parametrize("case", CHANGED, ids=lambda case: f"{case.pass_name}: {case.title}")
def test_each_node_has_a_scope(case: Case) -> None:
    model = load_case(case)
    for graph in graphs(model):
        for index, node in enumerate(graph):
            node.metadata_props[scopes.SCOPES] = repr(["", f"layer.{index}", str(node.name)])
    parse_pass(f"{case.pass_name}{{{case.header.get('options', '')}}}", PASSES).run(model, Context(Oracle(1)))
    without = [str(node) for graph in graphs(model) for node in graph if not scopes.module_path(node)]
    assert without == []
