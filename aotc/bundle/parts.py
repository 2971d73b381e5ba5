"""What ``bundle.json`` says of a model in parts: the digest of each part, which is a bundle of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from aotc.bundle.describe import digest_of, text_of
from aotc.bundle.entries import FileEntry, Frozen, Sha256
from aotc.bundle.names import FileName, clash_in, part_fault


def _validated(name: str) -> str:
    if fault := part_fault(name):
        raise ValueError(fault)
    return name


PartName = Annotated[str, AfterValidator(_validated)]
"""A name that :func:`aotc.bundle.names.part_fault` allows."""


class PartEntry(Frozen):
    """One part: the digest of the bundle in its folder."""

    digest: Sha256


class PartsContents(Frozen):
    """Everything in the ``bundle.json`` of a model in parts except its digest.

    ``parts`` are sorted by name. ``beside`` is verified and outside the digest, as in any bundle.
    """

    schema_version: Literal[1] = 1
    name: str
    parts: Annotated[dict[PartName, PartEntry], Field(min_length=1)]
    beside: dict[FileName, FileEntry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> PartsContents:
        if list(self.parts) != sorted(self.parts):
            raise ValueError("parts must be sorted by name")
        if clash := clash_in(self.parts):
            raise ValueError(clash)
        return self


class PartsDescription(PartsContents):
    """The whole ``bundle.json`` of a model in parts."""

    digest: Sha256

    def to_json(self) -> bytes:
        """Return the text of ``bundle.json``: equal descriptions give equal bytes."""
        return text_of(self)


def seal_parts(contents: PartsContents) -> PartsDescription:
    """Return the description of ``contents`` with its digest."""
    return PartsDescription(**dict(contents), digest=digest_of(contents))
