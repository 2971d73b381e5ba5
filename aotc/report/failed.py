"""What a failed gate leaves behind: nothing is published, but the report is kept, beside the worst inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from aotc.parity.failure import ParityError, parity_error
from aotc.parity.golden import Reference
from aotc.report.command import without_folders
from aotc.report.content import Report
from aotc.report.html import render


def failed_gate(
    report: Report, cases: Path, references: Sequence[Reference], saved: Path, source: str | None, graph: Path
) -> ParityError:
    """Save the worst case's inputs to ``saved`` and the report beside it; return the error that names both.

    Args:
        report: With a negative verdict.
        cases: Folder of the case files.
        references: The cases.
        saved: The .npz to write.
        source: The source as the user named it; None if it is not a file.
        graph: The portable model.
    """
    signature = report.contents.signature
    error = parity_error(report.verdict, signature, cases, references, saved, source, graph)
    page = saved.with_suffix(".html")
    replay = without_folders(error.hint) if error.hint else None
    page.write_text(render(dataclasses.replace(report, replay=replay)), encoding="utf-8")
    error.where = f"{error.where}; report: {page}"
    return error
