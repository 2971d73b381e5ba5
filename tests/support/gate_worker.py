"""What a build runs in child processes, in one that lives on: a thousand trials take minutes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from aotc.backends.ort_cpu.optimise import emit_in_child
from aotc.errors import AotcError
from aotc.parity.worker import check_engines


class Worker:
    """A process that emits and checks engines; another one takes its place if native code ends it."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def emit(self, payload: dict[str, Any]) -> Any:
        """Return the entry of the optimised engine, the reason of a refusal, or None after a crash."""
        return self._call(_emit, payload)

    def check(self, payload: dict[str, Any]) -> Any:
        """Return the engines' verdicts, the reason of a refusal, or None after a crash."""
        return self._call(_check, payload)

    def _call(self, function: Any, payload: dict[str, Any]) -> Any:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            return self._pool.submit(function, payload).result()
        except BrokenProcessPool:
            self.close()
            return None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()
        self._pool = None


def _emit(payload: dict[str, Any]) -> Any:
    try:
        return emit_in_child(payload, _silent)
    except AotcError as error:
        return error.message


def _check(payload: dict[str, Any]) -> Any:
    try:
        return check_engines(payload, _silent)
    except AotcError as error:
        return error.message


def _silent(_: str) -> None:
    pass
