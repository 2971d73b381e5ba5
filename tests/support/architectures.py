"""``python tests/support/architectures.py``: builds the zoo and writes docs/architectures.md."""

from __future__ import annotations

import importlib.metadata
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from zoo import TIMM, ZOO
from zoo_build import ATTENTION, Row, build

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architectures.md"
HEAD = """# Architectures

Small models with random weights, made from their configurations
([tests/support/zoo.py](../tests/support/zoo.py)) and built with every attention implementation that
transformers or timm has for them; timm's fused attention is called sdpa here. Written by
`python tests/support/architectures.py`, with {versions}. The rows of transformers'
models are tested with torch 2.13.0 as well, for which there is no torchvision, and so no timm.

"Verified" means what it means everywhere here: the engine was run and compared with eager at the corners of
the profile. "Worst error" is in shares of the bound that the build derived.

| model | attention | outcome | profile | cases | worst error |
|---|---|---|---|---|---|
"""
PACKAGES = ("torch", "torchvision", "transformers", "timm", "onnxscript", "onnxruntime")


def page(rows: Sequence[Row]) -> str:
    """Return the page for ``rows``."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    lines = [
        f"| {row.name} | {row.attention} | {row.outcome} | {row.dims} | {row.cases or ''} | "
        f"{f'{row.ratio:.2f}' if row.cases else ''} |"
        for row in rows
    ]
    return HEAD.format(versions=versions) + "\n".join(lines) + "\n"


def main() -> None:
    rows = []
    for name in (*ZOO, *TIMM):
        for attention in ATTENTION:
            with tempfile.TemporaryDirectory() as folder:
                if (row := build(name, attention, Path(folder))) is not None:
                    rows.append(row)
                    sys.stderr.write(f"{name}, {attention}: {row.outcome}\n")
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
