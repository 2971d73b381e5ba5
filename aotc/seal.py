"""The seal stage: what is said about a build, written down, digested and published at once."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.bundle import ASSETS, REPORT, Contents, Description, EngineEntry, PassEntry, Refusal, Staging
from aotc.bundle import seal as describe
from aotc.config import Options
from aotc.environment import producers
from aotc.parity.gate import refused_sizes
from aotc.parity.golden import Reference
from aotc.parity.golden_set import copy_golden
from aotc.parity.verdict import FIGURES, Verdict
from aotc.report.content import Report
from aotc.report.html import render
from aotc.rewrite import PassRecord
from aotc.signature import Signature
from aotc.target import parse_target

_TRUST = ("trust_remote_code", "trust_source")


@dataclasses.dataclass(frozen=True)
class BuildResult:
    """A published bundle."""

    directory: Path
    description: Description
    verdict: Verdict
    passes: tuple[PassRecord, ...]
    notes: tuple[str, ...]


def draft(
    staging: Staging,
    name: str,
    options: Options,
    signature: Signature,
    engines: Sequence[EngineEntry],
    records: Sequence[PassRecord],
) -> Contents:
    """Return the contents of a bundle whose engine files are written but not yet checked."""
    return Contents(
        producer=producers(),
        name=name,
        target=options.target,
        level="executed" if parse_target(options.target).executed else "graph",
        signature=signature,
        engines=tuple(engines),
        options=_recorded(options),
        passes=tuple(_entry(record) for record in records),
        files=staging.entries(*_engine_files(engines)),
    )


def _recorded(options: Options) -> dict[str, Any]:
    """Return the options that change what is built or how it is judged; folders and threads do not."""
    return options.model_dump(
        mode="json",
        include={"precision", "validate_passes", "disable", "tolerance", "seed", *_TRUST},
        by_alias=True,
    )


def _entry(record: PassRecord) -> PassEntry:
    refusals = tuple(Refusal(reason=r.reason, where=r.where, operator=r.operator) for r in record.refusals)
    return PassEntry(name=record.name, changes=record.changes, refusals=refusals)


def _engine_files(engines: Sequence[EngineEntry]) -> list[str]:
    return sorted({e.file for e in engines} | {t.file for e in engines for t in e.tensors})


def seal(
    staging: Staging,
    report: Report,
    references: Sequence[Reference],
    cases: Path,
    conditions: Sequence[str],
    assets: Sequence[Path],
) -> Description:
    """Add golden cases, assets, figures and the report to the staged files and publish the bundle.

    Args:
        staging: Holds the engine files.
        report: With the draft of the contents and a positive verdict.
        references: The cases of the gate.
        cases: Folder of their files.
        conditions: Conditions on sizes that the signature must insist on.
        assets: Files of the source that travel.
    """
    contents, verdict = report.contents, report.verdict
    signature = contents.signature.without_size_zero(refused_sizes(verdict.engines)).with_conditions(
        conditions
    )
    golden = copy_golden(references, verdict.engines, cases, staging.path)
    copied = _copy_assets(assets, staging.path)
    (staging.path / FIGURES).write_text(verdict.model_dump_json(indent=2) + "\n", encoding="utf-8")
    beside = staging.entries(FIGURES, *(case.outputs for case in golden))
    contents = contents.model_copy(
        update={
            "signature": signature,
            "verified_sizes": tuple(s for s in _verified_sizes(verdict) if signature.allows(s)),
            "golden": golden,
            "files": {
                **contents.files,
                **staging.entries(*(case.inputs for case in golden), *copied),
            },
            "beside": beside,
        }
    )
    # The digest does not cover the report, which names it.
    page = render(dataclasses.replace(report, contents=describe(contents)))
    (staging.path / REPORT).write_text(page, encoding="utf-8")
    return staging.publish(contents.model_copy(update={"beside": {**beside, **staging.entries(REPORT)}}))


def _copy_assets(assets: Sequence[Path], directory: Path) -> list[str]:
    """Copy the contents of ``assets`` to where a bundle has them and return their names there."""
    names = [f"{ASSETS}/{path.name}" for path in assets]
    for path, name in zip(assets, names, strict=True):
        (directory / ASSETS).mkdir(exist_ok=True)
        shutil.copyfile(path, directory / name)
    return names


def _verified_sizes(verdict: Verdict) -> tuple[Mapping[str, int], ...]:
    """Return the sizes at which every engine file was equal to eager."""
    per_engine = [
        {tuple(sorted(case.sizes.items())) for case in engine.cases if case.outcome == "equal"}
        for engine in verdict.engines
    ]
    return tuple(dict(sizes) for sizes in sorted(set.intersection(*per_engine)))
