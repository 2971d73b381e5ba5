"""The JSON Schema of ``bundle.json``, shipped as ``bundle.schema.json`` for tools in other languages."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import TypeAdapter

from aotc.bundle.describe import Description
from aotc.bundle.parts import PartsDescription

SCHEMA_FILE = Path(__file__).with_name("bundle.schema.json")


def schema_text() -> str:
    """Return the schema generated from the models of both kinds, as the text of ``bundle.schema.json``."""
    schema = TypeAdapter[Description | PartsDescription](Description | PartsDescription).json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def write_schema() -> None:
    """Write ``bundle.schema.json`` anew; needed after every change of the description's model."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
