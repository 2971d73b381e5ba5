"""A small bundle of plain bytes: nothing in ``aotc.bundle`` looks inside an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotc.bundle import (
    Contents,
    Description,
    EngineEntry,
    FileEntry,
    GoldenCase,
    PassEntry,
    Refusal,
    Staging,
    TensorEntry,
    place,
)
from aotc.signature import Argument, IndexRange, Profile, Signature, TensorSpec
from aotc.tree import ConstantLeaf, Dict, TensorLeaf

FILES = {
    "model.onnx": b"graph",
    "weights": bytes(range(64)),
    "golden/0.inputs.npz": b"inputs",
}
BESIDE = {"golden/0.outputs.npz": b"outputs", "parity.json": b"{}"}

SIGNATURE = Signature(
    arguments=(
        Argument(name="ids", kind="positional", tree=TensorLeaf(name="ids")),
        Argument(name="scale", kind="keyword", tree=ConstantLeaf(value=1.0)),
    ),
    inputs=(
        TensorSpec(
            name="ids",
            dtype="int64",
            shape=("batch", 4),
            range=IndexRange(low=0, high=9, origin="Gather of embed.weight"),
        ),
    ),
    outputs=(TensorSpec(name="b", dtype="float32", shape=("batch", 4)),),
    result=Dict(kind="dict", entries=(("b", TensorLeaf(name="b")), ("a", ConstantLeaf(value=None)))),
    profiles=({"batch": Profile(min=1, opt=1, max=8)},),
)


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def contents_for(**changes: Any) -> Contents:
    tensor = TensorEntry(name="w", dtype="float32", shape=(4, 4), file="weights", offset=0, length=64)
    fields: dict[str, Any] = {
        "producer": {"aotc": "0.1.0", "torch": "2.13.0"},
        "name": "tiny",
        "target": "ort-cpu",
        "level": "executed",
        "signature": SIGNATURE,
        "engines": (EngineEntry(file="model.onnx", kind="portable", tensors=(tensor,)),),
        "options": {"validate": "region", "accept": None},
        "passes": (
            PassEntry(
                name="fold", changes=("fc: a", "fc: b"), refusals=(Refusal(reason="shared", where="fc"),)
            ),
        ),
        "verified_sizes": ({"batch": 1}, {"batch": 8}),
        "golden": (
            GoldenCase(
                label="example",
                sizes={"batch": 1},
                inputs="golden/0.inputs.npz",
                outputs="golden/0.outputs.npz",
            ),
        ),
    }
    return Contents(**{**fields, **changes})


Publish = Callable[..., Description]


@pytest.fixture
def publish() -> Publish:
    """Return a function that publishes the bundle, with other files or other fields where given."""

    def publish(
        destination: Path,
        files: dict[str, bytes] | None = None,
        beside: dict[str, bytes] | None = None,
        **changes: Any,
    ) -> Description:
        files = {**FILES, **(files or {})}
        beside = {**BESIDE, **(beside or {})}
        with Staging(destination) as staging:
            write_files(staging.path, {**files, **beside})
            listed = {"files": staging.entries(*files), "beside": staging.entries(*beside)}
            return staging.publish(contents_for(**listed, **changes))

    return publish


@pytest.fixture
def bundle(tmp_path: Path, publish: Publish) -> Path:
    """Return the folder of a published bundle."""
    publish(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def contents() -> Callable[..., Contents]:
    """Return a function that makes the contents, with other fields where given."""

    def make(**changes: Any) -> Contents:
        entry = FileEntry(size=64, sha256="0" * 64)
        listed = {"files": dict.fromkeys(FILES, entry), "beside": dict.fromkeys(BESIDE, entry)}
        return contents_for(**{**listed, **changes})

    return make


@pytest.fixture(params=["exchange", "aside"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with the atomic exchange, and as on a file system without it."""
    if request.param == "aside":
        monkeypatch.setattr(place, "exchange", lambda first, second: False)
    return str(request.param)
