"""The command that builds a bundle again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from aotc.config import Options

_FOLDERS = re.compile(r"(?<!\S)/\S*/")


def without_folders(text: str) -> str:
    """Return a command with the last part of every absolute path in it."""
    return _FOLDERS.sub("", text)


def build_command(given: str | None, options: Options, out: Path) -> str | None:
    """Return the ``aotc build`` that makes the bundle again; no folder of this machine is named.

    Args:
        given: The source as the command line takes it, with its own options; None if it is no file.
        options: Of the build; those that only say where something is written are left out.
        out: Folder of the bundle.
    """
    if given is None:
        return None
    words = ["--target", options.target, "-o", shlex.quote(without_folders(str(out)))]
    words += ["--precision", options.precision] if options.precision != Options().precision else []
    words += ["--accept", options.accept] if options.accept else []
    if options.validate_passes != Options().validate_passes:
        words += ["--validate", options.validate_passes]
    for name in options.disable:
        words += ["--disable", shlex.quote(name)]
    words += ["--seed", str(options.seed)] if options.seed else []
    words += ["--threads", str(options.threads)] if options.threads else []
    return " ".join(["aotc build", without_folders(given), *words])
