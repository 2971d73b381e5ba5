"""The parts of ``bundle.json``: files, engines and their tensors, passes, golden cases."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aotc.bundle.names import FileName

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class Frozen(BaseModel):
    """Base of every part of ``bundle.json``: immutable, and without fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FileEntry(Frozen):
    """Size in bytes and chunked digest (:func:`aotc.bundle.digest.file_digest`) of one file."""

    size: Count
    sha256: Sha256


class TensorEntry(Frozen):
    """One external initialiser of an engine: ``length`` bytes at ``offset`` of ``file``.

    ``dtype`` is numpy's or ml_dtypes' name (``float32``, ``bfloat16``, ``int4``); the bytes are as in ONNX's
    raw_data.
    """

    name: str
    dtype: str
    shape: tuple[Count, ...]
    file: FileName
    offset: Count
    length: Count


class Requirements(Frozen):
    """The only machine that may load a machine-specific engine: the same runtime and the same CPU flags."""

    onnxruntime: str
    cpu_flags: tuple[str, ...]

    @model_validator(mode="after")
    def _sorted(self) -> Requirements:
        if list(self.cpu_flags) != sorted(set(self.cpu_flags)):
            raise ValueError("cpu_flags must be sorted and without duplicates")
        return self


class DeviceRequirements(Frozen):
    """The devices that may load a TensorRT-RTX engine: their architectures, and the version that built it."""

    tensorrt_rtx: str
    architectures: Annotated[tuple[str, ...], Field(min_length=1)]


class EngineEntry(Frozen):
    """One engine file and its external initialisers, sorted by name.

    ``rounded`` is the portable graph with float16 made explicit: what is judged where the engine is not run.
    """

    file: FileName
    kind: Literal["portable", "rounded", "ort-optimised", "tensorrt-rtx"]
    requires: Requirements | DeviceRequirements | None = None
    tensors: tuple[TensorEntry, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> EngineEntry:
        kinds: dict[str, type[Frozen]] = {"ort-optimised": Requirements, "tensorrt-rtx": DeviceRequirements}
        if type(self.requires) is not kinds.get(self.kind, type(None)):
            raise ValueError("an engine has the 'requires' of its kind, one for every machine none")
        names = [tensor.name for tensor in self.tensors]
        if names != sorted(set(names)):
            raise ValueError("tensors must be sorted by name and without duplicates")
        return self


class Refusal(Frozen):
    """Something that a pass left as it was: why, where in the model, and what operator it did not become."""

    reason: str
    where: str
    operator: str = ""


class PassEntry(Frozen):
    """One pass that ran at build time: each change in one line, and what it refused."""

    name: str
    changes: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()


class GoldenCase(Frozen):
    """One case of the gate: the sizes of its dims, its inputs, and eager's outputs."""

    label: str
    sizes: dict[str, int]
    inputs: FileName
    outputs: FileName
