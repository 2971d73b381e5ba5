"""Which cases travel in the bundle: the example first, then small ones, up to a cap on their bytes."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path

from aotc.bundle import GoldenCase, OpenBundle
from aotc.parity.golden import Reference, read_inputs
from aotc.parity.inputs import Feeds
from aotc.parity.verdict import EngineVerdict

MAX_BYTES = 8 << 20


def copy_golden(
    references: Sequence[Reference], engines: Sequence[EngineVerdict], cases: Path, directory: Path
) -> tuple[GoldenCase, ...]:
    """Copy golden inputs and outputs into ``directory/golden`` and return their entries.

    Only cases that every engine file got right are kept. The smallest one is kept whatever its size, so that
    ``aotc check`` always has something to replay.
    """
    equal = _equal_labels(engines)
    candidates = [r for r in references if r.outputs is not None and r.label in equal]
    size = {r.label: _bytes(cases, r) for r in candidates}
    chosen: set[str] = set()
    left = MAX_BYTES
    for reference in sorted(candidates, key=lambda r: (r.label != "example", size[r.label], r.label)):
        if size[reference.label] <= left or not chosen:
            chosen.add(reference.label)
            left -= size[reference.label]
    folder = directory / "golden"
    folder.mkdir()
    entries = []
    for reference in candidates:
        if reference.label in chosen and reference.outputs is not None:
            for name in (reference.inputs, reference.outputs):
                shutil.copyfile(cases / name, folder / name)
            entries.append(
                GoldenCase(
                    label=reference.label,
                    sizes=reference.sizes,
                    inputs=f"golden/{reference.inputs}",
                    outputs=f"golden/{reference.outputs}",
                )
            )
    return tuple(entries)


def _equal_labels(engines: Sequence[EngineVerdict]) -> set[str]:
    labels = [{case.label for case in engine.cases if case.outcome == "equal"} for engine in engines]
    return set.intersection(*labels) if labels else set()


def _bytes(cases: Path, reference: Reference) -> int:
    names = [reference.inputs, *([reference.outputs] if reference.outputs else [])]
    return sum((cases / name).stat().st_size for name in names)


def observed_inputs(bundle: OpenBundle) -> list[Feeds]:
    """Return the golden inputs that the source gave, the example first: what drawn values are like."""
    names = tuple(spec.name for spec in bundle.description.signature.inputs)
    golden = bundle.description.golden
    cases = [case for case in golden if case.label.startswith(("example", "more_inputs["))] or golden
    return [read_inputs(io.BytesIO(bundle.buffer(case.inputs)), names) for case in cases]
