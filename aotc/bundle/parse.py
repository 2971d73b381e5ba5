"""Reads ``bundle.json``: strictly, without trusting a byte of it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import rfc8785
from pydantic import ValidationError

from aotc.bundle.describe import SCHEMA_VERSION, Description, digest_of
from aotc.bundle.names import DESCRIPTION
from aotc.bundle.parts import PartsDescription
from aotc.errors import CompatibilityError, IntegrityError

LARGEST = 64 * 2**20
"""Bytes; a larger ``bundle.json`` is refused before it is read."""


def parse_description(text: bytes) -> Description | PartsDescription:
    """Return the description in ``text``: of one graph, or of a model in parts.

    Raises:
        IntegrityError: Not JSON, duplicate keys, a field that is wrong (its path is named), a wrong digest.
        CompatibilityError: A ``schema_version`` that this aotc does not know.
    """
    content = _load(text)
    _check_version(content)
    in_parts = isinstance(content, dict) and "parts" in content
    model: type[Description | PartsDescription] = PartsDescription if in_parts else Description
    try:
        # The second parse is strict in types, which the first cannot be: "12" is no size.
        description = model.model_validate_json(text, strict=True)
        digest = digest_of(description)
    except ValidationError as error:
        raise IntegrityError(_first_fault(error), where=DESCRIPTION) from error
    except rfc8785.CanonicalizationError as error:
        raise IntegrityError(f"{DESCRIPTION} cannot be digested: {error}") from error
    if digest != description.digest:
        raise IntegrityError(
            f"{DESCRIPTION} was changed: its content has the digest {digest}, not {description.digest}",
            hint="build or copy the bundle again",
        )
    if description.to_json() != text:
        raise IntegrityError(f"{DESCRIPTION} is not in the form that aotc writes", hint="build it again")
    return description


def _load(text: bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise IntegrityError(f"{DESCRIPTION} is nested too deep") from error
    except ValueError as error:
        raise IntegrityError(f"{DESCRIPTION} is not valid JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Parsers differ in which of two equal keys they take: a way to show one thing and load another.
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise IntegrityError(f"{DESCRIPTION} has the key {twice!r} twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _check_version(content: Any) -> None:
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise CompatibilityError(
            f"the bundle has schema_version {version}; this aotc reads up to {SCHEMA_VERSION}",
            hint="upgrade aotc on this machine, or build the bundle with this version",
        )


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Keys come from the file: escape what a terminal would act on.
    path = ".".join(str(part).encode("unicode_escape").decode() for part in fault["loc"])
    return f"{DESCRIPTION}: {path or 'the whole'}: {fault['msg']}"
