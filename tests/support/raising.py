"""``python tests/support/raising.py``: what raising finds in the zoo, for docs/raising.md."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir
from gate_models import FILES
from zoo import TIMM, ZOO
from zoo_build import ATTENTION, source_of

from aotc.errors import AotcError
from aotc.oracle import Oracle
from aotc.pipeline import RAISE
from aotc.rewrite import Context, Refusal, run_passes
from aotc.sources import AnySource, import_source

PAGE = Path(__file__).resolve().parents[2] / "docs" / "raising.md"
KINDS: dict[str, tuple[str, ...]] = {
    "attention": ("Attention",),
    "normalisation": (
        *("LayerNormalization", "RMSNormalization", "GroupNormalization"),
        *("InstanceNormalization", "LpNormalization"),
    ),
    "activation": (
        *("Gelu", "Swish", "HardSwish", "Mish", "Elu", "Selu", "Celu", "Softplus", "Softsign", "HardSigmoid"),
        *("LeakyRelu", "Relu", "Sigmoid", "Tanh", "Clip"),
    ),
    "rotary": ("RotaryEmbedding",),
}
HEAD = """# Raising

How many places of each kind the raising passes find, whatever their spelling. "2 + 4" says that two came out
of the exporter as the standard operator and four were raised to it; what was refused, and why, is listed
below. Written by `python tests/support/raising.py`, from the models of
[architectures.md](architectures.md) and the ONNX files of other producers that the samples use.

| model | spelled | {kinds} | refused |
|---|---|{rule}---|
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """One model: numbers of operators as exported and after raising, by kind, and what was refused."""

    name: str
    spelled: str
    before: Counter[str]
    after: Counter[str]
    refusals: tuple[Refusal, ...]


def raised(name: str, spelled: str, source: AnySource) -> Row:
    """Import ``source`` and run the raising passes on it."""
    oracle = Oracle(1)
    model = import_source(source, oracle).model
    before = _counted(model)
    records = run_passes(model, RAISE, Context(oracle))
    refusals = tuple(each for record in records for each in record.refusals if each.operator)
    return Row(name, spelled, before, _counted(model), refusals)


def _counted(model: ir.Model) -> Counter[str]:
    operators = Counter(node.op_type for node in model.graph.all_nodes() if not node.domain)
    return Counter({kind: sum(operators[name] for name in names) for kind, names in KINDS.items()})


def rows() -> Iterator[Row]:
    """Yield a row for each model that can be imported here."""
    for name in (*ZOO, *TIMM):
        for attention in ATTENTION:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    source = source_of(name, attention, Path(folder) / "model")
                    if source is not None:
                        yield raised(name, attention, source)
                except AotcError as error:
                    sys.stderr.write(f"{name}, {attention}: {error.message}\n")
    for name, make in FILES.items():
        yield raised(name, "", make())


def page(found: list[Row]) -> str:
    """Return the page for ``found``."""
    lines = []
    for row in found:
        cells = [_cell(row.before[kind], row.after[kind]) for kind in KINDS]
        lines.append(f"| {row.name} | {row.spelled} | {' | '.join(cells)} | {len(row.refusals) or ''} |")
    reasons: dict[str, list[str]] = {}
    for row in found:
        for refusal in row.refusals:
            reasons.setdefault(f"{refusal.operator}: {refusal.reason}", []).append(row.name)
    refused = [f"- {text} ({', '.join(dict.fromkeys(names))})" for text, names in sorted(reasons.items())]
    head = HEAD.format(kinds=" | ".join(KINDS), rule="---|" * len(KINDS))
    return head + "\n".join([*lines, "", "## Refused", "", *(refused or ["Nothing."])]) + "\n"


def _cell(before: int, after: int) -> str:
    if after < before:
        return f"{before}, {before - after} of them parts of others"
    return f"{before} + {after - before}" if after > before else str(before or "")


def main() -> None:
    found = []
    for row in rows():
        found.append(row)
        sys.stderr.write(f"{row.name} {row.spelled}: {len(row.refusals)} refused\n")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
