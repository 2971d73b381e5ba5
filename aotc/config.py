"""Options of a build: ``aotc.toml`` or ``[tool.aotc]`` in pyproject.toml, overridden by flags.

Unknown keys are errors with a suggestion: a misspelt option must not be ignored.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from aotc.errors import UsageError
from aotc.target import parse_target

_ENVIRONMENT = "AOTC_"


def _no_bool(value: Any) -> Any:
    """Refuse ``threads = true``, which would otherwise count as 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number, not true or false")  # noqa: TRY004 - pydantic's way
    return value


def _counts(value: Any) -> Any:
    """Read ``attention=6,layer-normalization=13``, as a flag or the environment gives it."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",")]
    if not all(name and count for name, _, count in pairs):
        raise ValueError("write it like attention=6,layer-normalization=13")
    return {name.strip(): count.strip() for name, _, count in pairs}


class Bound(BaseModel):
    """A tolerance that the user sets for one output: |engine - eager| <= atol + rtol * |eager|."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    atol: float = Field(ge=0, allow_inf_nan=False)
    rtol: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class Options(BaseModel):
    """Everything about a build that is not in the source file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Annotated[str, AfterValidator(lambda text: str(parse_target(text)))] = "ort-cpu"
    """What the engine runs on: ``ort-cpu``, or ``tensorrt-rtx:sm_86,sm_89``."""
    precision: Literal["fp32", "fp16"] = "fp32"
    """``fp16`` computes in float16 where that keeps the meaning; inputs and outputs keep their types."""
    accept: Literal["graph"] | None = None
    """Publish an engine that could not be run here, whose graph was verified."""
    threads: Annotated[int | None, BeforeValidator(_no_bool)] = Field(default=None, ge=1)
    """Threads of the engine while it is checked; None leaves it to the runtime."""
    validate_passes: Literal["off", "region", "each"] = Field(default="region", alias="validate")
    """``region`` runs what a pass rewrote in both forms and puts back what differs; ``each`` also compares
    the whole model with eager after each pass and names the guilty one."""
    disable: tuple[str, ...] = ()
    """Names of passes to leave out."""
    expect_fused: Annotated[dict[str, Annotated[int, Field(ge=0)]], BeforeValidator(_counts)] = {}
    """How many of an operator the graph must have before lowering, by name: ``attention=6``."""
    dump_dir: Path | None = None
    """Folder for the graph's text after each pass that changed it."""
    tolerance: dict[str, Bound] = {}
    """Bounds by output name instead of the derived ones; recorded in the bundle."""
    seed: Annotated[int, BeforeValidator(_no_bool)] = Field(default=0, ge=0)
    """Seeds the drawn inputs of the gate."""
    trust_remote_code: bool = False
    """Run the Python code that a Hugging Face folder brings; recorded in the bundle."""
    trust_source: bool = False
    """Load a .pt2 file, which can execute code that is hidden in it; recorded in the bundle."""


def load_options(flags: Mapping[str, Any], directory: Path) -> Options:
    """Merge flags, environment (``AOTC_TARGET`` ...), config file and defaults, in that order.

    Args:
        flags: Options given on the command line; None values were not given.
        directory: Where ``aotc.toml`` or ``pyproject.toml`` is looked for.

    Raises:
        UsageError: An unknown key or a value of the wrong type; says where it came from.
    """
    origin, values = _from_file(directory)
    found = {key: (value, origin) for key, value in values.items()}
    for key in _names():
        if (text := os.environ.get(_ENVIRONMENT + key.upper())) is not None:
            parts: Any = tuple(filter(None, text.split(","))) if key == "disable" else text
            found[key] = (parts, f"environment variable {_ENVIRONMENT}{key.upper()}")
    found |= {key: (value, "command line") for key, value in flags.items() if value not in (None, ())}
    for key, (_, where) in found.items():
        if key not in _names():
            raise UsageError(f"unknown option '{key}'", slug="config", where=where, hint=_suggestion(key))
    try:
        return Options.model_validate({key: value for key, (value, _) in found.items()})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        path = ".".join(map(str, first["loc"]))
        text = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"option '{path}': {text}", slug="config", where=found[key][1]) from error


def _names() -> list[str]:
    return [field.alias or name for name, field in Options.model_fields.items()]


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key, _names(), n=1)
    return f"did you mean '{close[0]}'?" if close else f"options: {', '.join(_names())}"


def _from_file(directory: Path) -> tuple[str, dict[str, Any]]:
    own, project = directory / "aotc.toml", directory / "pyproject.toml"
    if own.is_file():
        return own.name, _read(own)
    if not project.is_file():
        return "", {}
    where, table = f"[tool.aotc] in {project.name}", _read(project).get("tool", {})
    values = table.get("aotc", {}) if isinstance(table, dict) else {}
    if not isinstance(values, dict):
        raise UsageError("aotc must be a table of options", slug="config", where=where)
    return where, values


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} is not valid TOML: {error}", slug="config") from error
    except OSError as error:
        raise UsageError(f"{path.name} cannot be read: {error.strerror}", slug="config") from error
