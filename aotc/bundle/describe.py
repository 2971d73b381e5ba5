"""What ``bundle.json`` says: the engine files, the signature, the decisions, and the digest over them all."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

import rfc8785
from pydantic import Field, JsonValue, model_validator

from aotc.bundle.entries import EngineEntry, FileEntry, Frozen, GoldenCase, PassEntry, Sha256
from aotc.bundle.names import ASSETS, DESCRIPTION, FileName, clash_in
from aotc.errors import RefusedError
from aotc.signature import Signature

SCHEMA_VERSION = 1
"""The newest ``schema_version`` that this aotc reads."""


class Contents(Frozen):
    """Everything in ``bundle.json`` except its digest.

    ``files`` are covered by the digest, also those under ``assets/``, which came with the model (tokenizer,
    labels, licence); ``beside`` (golden outputs, figures, the report) is verified as well, but two builds
    that differ only there are the same bundle.
    """

    schema_version: Literal[1] = 1
    producer: dict[str, str]
    name: str
    target: str
    level: Literal["executed", "graph"]
    signature: Signature
    engines: Annotated[tuple[EngineEntry, ...], Field(min_length=1)]
    options: dict[str, JsonValue] = Field(default_factory=dict)
    decisions: dict[str, JsonValue] = Field(default_factory=dict)
    passes: tuple[PassEntry, ...] = ()
    verified_sizes: tuple[dict[str, int], ...] = ()
    golden: tuple[GoldenCase, ...] = ()
    files: dict[FileName, FileEntry]
    beside: dict[FileName, FileEntry] = Field(default_factory=dict)

    @property
    def assets(self) -> tuple[str, ...]:
        """Return the names of the files that came with the model, without their folder."""
        prefix = f"{ASSETS}/"
        return tuple(sorted(name.removeprefix(prefix) for name in self.files if name.startswith(prefix)))

    @property
    def runnable(self) -> tuple[EngineEntry, ...]:
        """Return the engine files that ONNX Runtime runs; those of a device are only carried."""
        return tuple(engine for engine in self.engines if engine.kind != "tensorrt-rtx")

    @model_validator(mode="after")
    def _consistent(self) -> Contents:
        for fault in (self._listing_fault(), self._engine_fault(), self._golden_fault()):
            if fault:
                raise ValueError(fault)
        return self

    def _listing_fault(self) -> str | None:
        if twice := sorted(self.files.keys() & self.beside.keys()):
            return f"'{twice[0]}' is listed under files and beside"
        if DESCRIPTION in self.files or DESCRIPTION in self.beside:
            return f"'{DESCRIPTION}' lists itself"
        return clash_in([*self.files, *self.beside, DESCRIPTION])

    def _engine_fault(self) -> str | None:
        for engine in self.engines:
            if engine.file not in self.files:
                return f"the engine file '{engine.file}' is not listed under files"
            for tensor in engine.tensors:
                if tensor.file not in self.files:
                    return f"the file '{tensor.file}' of tensor '{tensor.name}' is not listed under files"
                if tensor.offset + tensor.length > self.files[tensor.file].size:
                    return f"the tensor '{tensor.name}' reaches beyond the end of '{tensor.file}'"
        return None

    def _golden_fault(self) -> str | None:
        for case in self.golden:
            if case.inputs not in self.files:
                return f"the golden inputs '{case.inputs}' are not listed under files"
            if case.outputs not in self.beside:
                return f"the golden outputs '{case.outputs}' are not listed under beside"
        return None


class Description(Contents):
    """The whole ``bundle.json``."""

    digest: Sha256

    def to_json(self) -> bytes:
        """Return the text of ``bundle.json``: equal descriptions give equal bytes."""
        return text_of(self)


def text_of(description: Frozen) -> bytes:
    """Return a description as the text of ``bundle.json``."""
    # Not sorted: the order of a dict in the signature's trees is the order of the caller's result.
    return (json.dumps(description.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()


def digest_of(contents: Frozen) -> str:
    """Return the bundle digest: hex sha256 of the RFC 8785 JSON without ``digest`` and ``beside``.

    Raises:
        rfc8785.CanonicalizationError: An integer beyond 2**53 or a float that is not finite.
    """
    covered = contents.model_dump(mode="json", exclude={"digest", "beside"})
    return hashlib.sha256(rfc8785.dumps(covered)).hexdigest()


def seal(contents: Contents) -> Description:
    """Return the description of ``contents`` with its digest; dicts without an order of their own are sorted.

    Raises:
        RefusedError: A number that JSON cannot carry exactly.
    """
    fields: dict[str, Any] = {name: getattr(contents, name) for name in Contents.model_fields}
    for name in ("producer", "options", "decisions", "files", "beside"):
        fields[name] = _sorted(fields[name])
    try:
        return Description(**fields, digest=digest_of(contents))
    except rfc8785.CanonicalizationError as error:
        raise RefusedError(
            f"the bundle cannot be described: {error}",
            slug="bundle",
            hint="pass such a number as a tensor instead of a Python constant",
        ) from error


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
