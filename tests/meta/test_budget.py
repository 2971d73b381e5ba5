"""Size budgets: a file over its budget has become two files, a function two functions."""

from __future__ import annotations

import ast

from project_tree import ROOT, SHIPPED, name, python_files

FILE, FUNCTION, PIPELINE = 350, 50, 200


def test_files() -> None:
    sizes = {name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in python_files(*SHIPPED)}
    assert len(sizes) > 50
    assert {path: size for path, size in sizes.items() if size > FILE} == {}


def test_functions() -> None:
    long = {}
    for path in python_files(*SHIPPED):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = _lines_of_code(lines, node)
                if size > FUNCTION:
                    long[f"{name(path)}:{node.lineno} {node.name}"] = size
    assert long == {}


def _lines_of_code(lines: list[str], function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a body without its docstring, blank lines and comments."""
    body = function.body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        body = body[1:]
    texts = [line.strip() for line in lines[body[0].lineno - 1 : function.end_lineno]] if body else []
    return sum(bool(text) and not text.startswith("#") for text in texts)


def test_the_pipeline_is_one_screen() -> None:
    assert len((ROOT / "aotc/pipeline.py").read_text(encoding="utf-8").splitlines()) <= PIPELINE
