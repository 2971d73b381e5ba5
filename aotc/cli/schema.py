"""The JSON Schemas of what ``--json`` prints, shipped in ``schemas/`` for tools in other languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from aotc.cli.bench_document import BenchDocument
from aotc.cli.diff_document import DiffDocument
from aotc.cli.doctor import DoctorDocument
from aotc.cli.document import ErrorDocument
from aotc.cli.inspection import InspectDocument, PartsDocument
from aotc.cli.passes import PassesDocument
from aotc.cli.run import RunDocument
from aotc.cli.verdicts import VerdictDocument

FOLDER = Path(__file__).with_name("schemas")
DOCUMENTS: Mapping[str, Any] = {
    "bench": BenchDocument,
    "build": VerdictDocument,
    "check": VerdictDocument,
    "diff": DiffDocument,
    "doctor": DoctorDocument,
    "error": ErrorDocument,
    "inspect": InspectDocument | PartsDocument,
    "passes": PassesDocument,
    "run": RunDocument,
}
"""What each command prints: a document, or one of several; ``error`` is any's when there is no result."""


class _WithoutNaN(GenerateJsonSchema):
    """JSON has no NaN: a figure may be null."""

    def float_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": ["number", "null"]}


def schema_text(document: Any) -> str:
    """Return the schema generated from the model, or from a union of models, as the text of its file."""
    adapter = TypeAdapter[Any](document)
    schema = _rewrapped(adapter.json_schema(mode="serialization", schema_generator=_WithoutNaN))
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def _rewrapped(schema: Any) -> Any:
    """Return a schema with each description as one line: where docstrings are wrapped must not matter."""
    if isinstance(schema, dict):
        text = schema.get("description")
        lines = {"description": " ".join(text.split())} if isinstance(text, str) else {}
        return {key: _rewrapped(value) for key, value in schema.items()} | lines
    return [_rewrapped(item) for item in schema] if isinstance(schema, list) else schema


def write_schemas() -> None:
    """Write every schema anew; needed after every change of a document's model."""
    FOLDER.mkdir(exist_ok=True)
    for name, document in DOCUMENTS.items():
        (FOLDER / f"{name}.json").write_text(schema_text(document), encoding="utf-8")
