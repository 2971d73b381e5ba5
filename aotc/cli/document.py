"""What the JSON documents of all commands have in common, and the one that says what went wrong."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base of every object in a document: immutable, and without fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Document(Part):
    """Base of every document. Figures that are not finite are null, because JSON has no NaN."""

    schema_version: Literal[1] = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the document as JSON values."""
        return self.model_dump(mode="json")


class Problem(Part):
    """An error as on stderr: its name, what, where, the fix, and the exit code of the command."""

    name: str
    message: str
    where: str | None
    fix: str | None
    exit_code: int


class ErrorDocument(Document):
    """What ``--json`` prints when there is no result."""

    error: Problem
