"""What ``--json`` prints is one document, valid against a schema that is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from aotc.cli.schema import DOCUMENTS, FOLDER, schema_text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_shipped_schema_is_the_models(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert text == schema_text(DOCUMENTS[name]), "run aotc.cli.schema.write_schemas()"
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_there_is_no_other_schema() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(DOCUMENTS)


def test_a_document_with_another_field_is_refused() -> None:
    schema = json.loads((FOLDER / "doctor.json").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema_version": 1, "more": 1}, schema)


@pytest.mark.parametrize(
    ("args", "code", "name"),
    [
        (["build", "nix.py", "-o", "new"], 2, "source"),
        (["check", "model.py"], 2, "usage"),
        (["run", "nix", "--random"], 2, "bundle"),
        (["inspect", "nix"], 2, "bundle"),
        (["bench", "nix"], 2, "bundle"),
        (["passes", "nix"], 2, "usage"),
    ],
)
def test_without_a_result_the_document_is_the_error(cli, folder: Path, args, code: int, name: str) -> None:
    done = cli(*args, "--json")
    assert done.code == code
    error = done.document("error")["error"]
    assert (error["name"], error["exit_code"]) == (name, code)
    assert done.error.startswith(f"error[{name}]: {error['message']}")


def test_bench(cli, folder: Path) -> None:
    done = cli("bench", "bundle", "--repeat", "1", "--json")
    assert done.code == 0, done.err
    assert done.document("bench")["sizes"]
