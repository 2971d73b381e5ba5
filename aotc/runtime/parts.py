"""A loaded model in parts: an engine for each, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType

from aotc.bundle import PartsDescription
from aotc.errors import UsageError
from aotc.runtime.engine import Engine


class Engines:
    """What :func:`aotc.load` returns for a bundle in parts: ``engines["encoder"].run(...)``.

    Iteration gives the names. ``close`` closes every engine.

    Attributes:
        description: The content of the ``bundle.json`` that lists the parts.
    """

    def __init__(self, description: PartsDescription, engines: Mapping[str, Engine]) -> None:
        self.description = description
        self._engines = dict(engines)

    def __getitem__(self, name: str) -> Engine:
        if name not in self._engines:
            raise UsageError(
                f"the bundle has no part {name!r}", slug="parts", hint=f"parts: {', '.join(self._engines)}"
            )
        return self._engines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    def close(self) -> None:
        """Close the engine of every part. Calling it twice is fine."""
        for engine in self._engines.values():
            engine.close()

    def __enter__(self) -> Engines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
