"""The document of ``aotc diff``."""

from __future__ import annotations

from aotc.cli.document import Document
from aotc.diff import AnyDiff


class DiffDocument(Document):
    """What ``diff`` prints; ``same`` if the digests are equal, and then nothing is listed."""

    bundle_a: str
    bundle_b: str
    same: bool
    diff: AnyDiff
