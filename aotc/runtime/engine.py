"""A loaded bundle that runs: every call is checked against the signature before the engine sees it."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal

from aotc.bundle import Description
from aotc.errors import UsageError
from aotc.runtime.arrays import Array, to_array
from aotc.runtime.choose import TARGET
from aotc.runtime.failures import runtime_failures
from aotc.runtime.session import failed_run
from aotc.runtime.stream import Session
from aotc.signature import Signature


class Engine:
    """What :func:`aotc.load` returns.

    ``run`` and ``run_flat`` may be called from several threads at once: they share nothing but the session,
    whose runs are independent of each other. ``close`` frees the session once the calls in progress are done.

    Attributes:
        description: The content of ``bundle.json``.
        file: The engine file that runs.
        selection: Which of the bundle's engines runs, and why, in one line.
    """

    def __init__(
        self,
        description: Description,
        file: str,
        session: Any,
        weights: Mapping[str, memoryview],
        selection: str,
        assets: Mapping[str, memoryview] | None = None,
    ) -> None:
        self.description = description
        self.file = file
        self.selection = selection
        # The session borrows the memory of the weights: the two live and end together.
        self._loaded: tuple[Any, Mapping[str, memoryview]] | None = (session, weights)
        self._assets = dict(assets or {})
        self._outputs = [spec.name for spec in self.signature.outputs]

    @property
    def level(self) -> Literal["executed", "graph"]:
        """Return what a check of this says of the bundle: that its engine ran, or only its graph."""
        return "executed" if self.description.target == TARGET else "graph"

    @property
    def signature(self) -> Signature:
        """Names, dtypes, dims, ranges and structure of inputs and outputs."""
        return self.description.signature

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run with the arguments that forward takes, and return what forward returns, in numpy.

        Arrays and torch tensors may be mixed and nested as in forward. Dataclasses and named tuples come back
        as dicts whose items are attributes as well.

        Raises:
            InputError: Arguments that the signature does not allow, or values that the engine refused.
            UsageError: The engine is closed.
        """
        return self.signature.unflatten_result(self.run_flat(self.signature.flatten_call(*args, **kwargs)))

    def run_flat(self, feeds: Mapping[str, Any]) -> dict[str, Array]:
        """Run with arrays by input name, and return arrays by output name.

        Raises:
            InputError: A name, dtype, rank, size or value that the signature does not allow, or that the
                engine refused.
            AotcError: The engine failed for another reason.
            UsageError: The engine is closed.
        """
        loaded = self._loaded
        if loaded is None:
            raise UsageError("this engine is closed", slug="engine", hint="aotc.load makes another")
        arrays = {name: to_array(name, value) for name, value in feeds.items()}
        self.signature.check(arrays)
        try:
            results = loaded[0].run(self._outputs, arrays)
        except runtime_failures() as error:
            raise failed_run(error) from error
        return dict(zip(self._outputs, results, strict=True))

    def asset(self, name: str) -> bytes:
        """Return the content of a file that came with the model: the very bytes that were verified.

        Args:
            name: As ``description.assets`` lists it, such as ``tokenizer.json``.

        Raises:
            UsageError: The bundle has no such file, or the engine is closed.
        """
        if self._loaded is None:
            raise UsageError("this engine is closed", slug="engine", hint="aotc.load makes another")
        if name not in self._assets:
            known = ", ".join(self._assets) or "none"
            raise UsageError(f"the bundle has no asset {name!r}", slug="asset", hint=f"assets: {known}")
        return bytes(self._assets[name])

    def session(self, /, **state: Any) -> Session:
        """Start a stream: the result keeps the state between its calls, one for each stream.

        Args:
            **state: First values by input name. The rest starts as zeros, in the sizes of the first call.

        Raises:
            InputError: ``state`` has a name that is no state, or no array.
            UsageError: The source declared no state.
        """
        return Session(self, state)

    def close(self) -> None:
        """Let go of the session and the bundle's memory. Calling it twice is fine."""
        self._loaded = None
        self._assets = {}

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
