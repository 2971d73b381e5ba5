"""The figures that a bundle was published with."""

from __future__ import annotations

from pydantic import ValidationError

from aotc.bundle import OpenBundle
from aotc.parity.verdict import FIGURES, Verdict


def recorded(bundle: OpenBundle) -> Verdict | None:
    """Return the verdict of the build; None if the bundle has none, or one of another version of aotc."""
    if FIGURES not in bundle.description.beside:
        return None
    try:
        return Verdict.model_validate_json(bytes(bundle.buffer(FIGURES)))
    except ValidationError:
        return None
