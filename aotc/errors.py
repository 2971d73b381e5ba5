"""Every error that aotc raises on purpose: what happened, where, and the command that helps.

The command line prints ``render()`` and exits with ``exit_code``; the library raises. An error that is not
an ``AotcError`` is a bug of ours (exit code 70).
"""

from __future__ import annotations

import re
from typing import ClassVar

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""Where an object lies in memory: in the text of foreign exceptions, and never of use."""


class AotcError(Exception):
    """Base of all expected errors.

    Args:
        message: One sentence: what is wrong.
        slug: Short kebab-case name of the error, shown as ``error[slug]``; defaults to the class's own.
        where: Place in the user's words: module path and source line, tensor, file.
        hint: The command or edit that helps.
    """

    slug: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, slug: str | None = None, where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = _ADDRESS.sub("", message)
        self.name = slug or self.slug
        self.where = where
        self.hint = hint

    def render(self) -> str:
        """Return the whole text: one line for what, one for where, one for the fix."""
        lines = [f"error[{self.name}]: {self.message}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  fix: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class VerdictError(AotcError):
    """A negative verdict: parity failed, or a budget or an expectation was missed."""

    slug = "verdict"
    exit_code = 1


class UsageError(AotcError):
    """The command, the configuration or the source file is not usable as given."""

    slug = "usage"
    exit_code = 2


class InputError(UsageError, ValueError):
    """Inputs that the signature does not allow: name, dtype, rank, size, index range."""

    slug = "input"


class RefusedError(AotcError):
    """This model is refused: unsupported, malformed or too large; says which part and why."""

    slug = "refused"
    exit_code = 3


class IntegrityError(AotcError):
    """A bundle's files are not the ones that were built."""

    slug = "integrity"
    exit_code = 4


class CompatibilityError(AotcError):
    """A bundle is intact but was not made for this runtime, machine or version of aotc."""

    slug = "compatibility"
    exit_code = 4


class MissingError(AotcError):
    """Something that this command needs is not installed or not present on this machine."""

    slug = "environment"
    exit_code = 5


class UnexecutedError(MissingError):
    """The engine cannot be run on this machine: what was verified is its graph, on another runtime.

    ``verdict`` has the figures of the graph.
    """

    slug = "unexecuted"
    verdict: object = None


class StorageError(AotcError):
    """Reading or writing files failed: no space, no permission, device error."""

    slug = "storage"
    exit_code = 74


class InternalError(Exception):
    """A bug of aotc's own: not an ``AotcError``, because no user can fix it."""

    exit_code: ClassVar[int] = 70
