from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import rfc8785
from pydantic import ValidationError

from aotc.bundle import (
    Contents,
    DeviceRequirements,
    EngineEntry,
    FileEntry,
    Requirements,
    TensorEntry,
    open_bundle,
    seal,
)
from aotc.bundle.schema import SCHEMA_FILE, schema_text
from aotc.errors import RefusedError

Make = Callable[..., Contents]
ENTRY = FileEntry(size=64, sha256="0" * 64)


def test_digest_is_the_documented_one(bundle: Path) -> None:
    content = json.loads((bundle / "bundle.json").read_bytes())
    digest = content.pop("digest")
    del content["beside"]
    assert digest == hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def test_digest_covers_everything_but_beside(contents: Make) -> None:
    digest = seal(contents()).digest
    assert seal(contents(beside=contents().beside | {"report.html": ENTRY})).digest == digest
    for change in (
        {"level": "graph"},
        {"options": {"validate": "off"}},
        {"decisions": {"attention": "gqa"}},
        {"files": contents().files | {"more": ENTRY}},
        {"verified_sizes": ()},
        {"signature": contents().signature.model_copy(update={"profiles": ()})},
    ):
        assert seal(contents(**change)).digest != digest, change


def test_equal_contents_give_equal_bytes_in_any_order(contents: Make) -> None:
    one = contents(options={"a": {"x": 1, "y": 2}, "b": 3})
    backwards = contents(options={"b": 3, "a": {"y": 2, "x": 1}}, files=dict(reversed(one.files.items())))
    assert seal(one).to_json() == seal(backwards).to_json()


def test_description_survives_a_round_trip(bundle: Path) -> None:
    with open_bundle(bundle) as opened:
        description = opened.description
    assert description.to_json() == (bundle / "bundle.json").read_bytes()
    # The kinds of frozen constants and the order of forward's result are part of the signature.
    assert type(description.signature.arguments[1].tree.value) is float
    assert list(description.signature.result.items) == ["b", "a"]


@pytest.mark.parametrize("value", [2**53 + 1, float("nan"), float("inf")])
def test_a_number_that_json_cannot_carry_is_refused(contents: Make, value: float) -> None:
    with pytest.raises(RefusedError, match="the bundle cannot be described") as caught:
        seal(contents(options={"limit": value}))
    assert caught.value.hint == "pass such a number as a tensor instead of a Python constant"


REQUIRES = Requirements(onnxruntime="1.32.0", cpu_flags=("avx", "avx2"))
DEVICE = DeviceRequirements(tensorrt_rtx="1.7.1.116", architectures=("sm_86",))


def tensor(name: str = "w", file: str = "weights", offset: int = 0) -> TensorEntry:
    return TensorEntry(name=name, dtype="float32", shape=(16,), file=file, offset=offset, length=64)


def engine(**fields: object) -> EngineEntry:
    return EngineEntry(**{"file": "model.onnx", "kind": "portable", **fields})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda c: c(files={}), "the engine file 'model.onnx' is not listed under files"),
        (lambda c: c(engines=()), "at least 1 item"),
        (lambda c: c(engines=(engine(file="other"),)), "the engine file 'other' is not listed"),
        (
            lambda c: c(engines=(engine(tensors=(tensor(offset=1),)),)),
            "the tensor 'w' reaches beyond",
        ),
        (lambda c: c(engines=(engine(tensors=(tensor(file="x"),)),)), "the file 'x' of tensor 'w' is not"),
        (lambda c: engine(tensors=(tensor("b"), tensor("a"))), "tensors must be sorted by name"),
        (lambda c: engine(tensors=(tensor("a"), tensor("a"))), "without duplicates"),
        (lambda c: engine(kind="ort-optimised"), "an engine has the 'requires' of its kind"),
        (lambda c: engine(requires=REQUIRES), "an engine has the 'requires' of its kind"),
        (
            lambda c: engine(kind="tensorrt-rtx", requires=REQUIRES),
            "an engine has the 'requires' of its kind",
        ),
        (lambda c: engine(kind="ort-optimised", requires=DEVICE), "an engine has the 'requires' of its kind"),
        (lambda c: DeviceRequirements(tensorrt_rtx="1.7", architectures=()), "at least 1 item"),
        (lambda c: Requirements(onnxruntime="1", cpu_flags=("b", "a")), "cpu_flags must be sorted"),
        (lambda c: c(beside={"weights": ENTRY}), "'weights' is listed under files and beside"),
        (lambda c: c(beside={}), "the golden outputs 'golden/0.outputs.npz' are not listed under beside"),
        (
            lambda c: c(files={k: v for k, v in c().files.items() if "inputs" not in k}),
            "the golden inputs 'golden/0.inputs.npz' are not listed under files",
        ),
        (lambda c: c(files=c().files | {"bundle.json": ENTRY}), "'bundle.json' lists itself"),
        (lambda c: c(files=c().files | {"Bundle.json": ENTRY}), "are one on a file system"),
        (lambda c: c(files=c().files | {"../x": ENTRY}), "is not allowed in a bundle"),
        (lambda c: c(unknown=1), "Extra inputs are not permitted"),
    ],
)
def test_inconsistent_contents_are_refused(contents: Make, make: Callable[[Make], object], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        make(contents)


def test_shipped_schema_is_the_models() -> None:
    generated = schema_text()
    assert SCHEMA_FILE.read_text(encoding="utf-8") == generated, "run aotc.bundle.schema.write_schema()"


def test_schema_accepts_a_real_description_and_refuses_a_wrong_one(bundle: Path) -> None:
    schema = json.loads(SCHEMA_FILE.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    content = json.loads((bundle / "bundle.json").read_bytes())
    jsonschema.validate(content, schema, cls=jsonschema.Draft202012Validator)
    for change in ({"schema_version": 2}, {"level": "maybe"}, {"digest": "x"}, {"more": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(content | change, schema, cls=jsonschema.Draft202012Validator)


def test_assets_are_the_files_in_their_folder(contents: Make) -> None:
    assert contents().assets == ()
    more = {"assets/vocab.txt": ENTRY, "assets/LICENSE": ENTRY}
    assert contents(files=contents().files | more).assets == ("LICENSE", "vocab.txt")
