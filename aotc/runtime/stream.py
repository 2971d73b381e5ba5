"""One stream through an engine: the state that it returns is what it is given at the next call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc import dims
from aotc.errors import InputError, UsageError
from aotc.runtime.arrays import Array, to_array
from aotc.signature import TensorSpec

if TYPE_CHECKING:
    from aotc.runtime.engine import Engine


class Session:
    """What :meth:`aotc.runtime.Engine.session` returns.

    Calls follow each other, so a session is for one stream and one thread at a time. Sessions of an engine
    share nothing but the engine: they may run in several threads at once.
    """

    def __init__(self, engine: Engine, given: Mapping[str, Any]) -> None:
        state = engine.signature.state
        if not state:
            raise UsageError(
                "this engine has no state to keep between calls",
                slug="state",
                hint='declare it in the source file, state = {"INPUT": "OUTPUT"}, and build again',
            )
        if unknown := sorted(given.keys() - state.keys()):
            raise InputError(f"there is no state '{unknown[0]}'", hint=f"state: {', '.join(state)}")
        self._engine = engine
        # Copied, here and after each call: what the caller does to its arrays must not change the stream.
        self._given = {name: np.array(to_array(name, value)) for name, value in given.items()}
        self._state = self._given

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the next step: take the arguments of forward without the state, return what forward returns.

        If it raises, the state is as before.

        Raises:
            InputError: As ``Engine.run``; or sizes that are not those of this stream (another batch).
            UsageError: The engine is closed.
        """
        signature = self._engine.signature
        flat = signature.flatten_step(*args, **kwargs)
        feeds = {name: to_array(name, value) for name, value in flat.items()}
        sizes = signature.bind_dims({name: value.shape for name, value in feeds.items()})
        for spec in signature.inputs:
            if spec.name in signature.state:
                feeds[spec.name] = self._value(spec, sizes)
        outputs = self._engine.run_flat(feeds)
        self._state = {name: np.array(outputs[output]) for name, output in signature.state.items()}
        return signature.unflatten_result(outputs)

    def reset(self) -> None:
        """Go back to the start: to the state that ``session`` was given, and zeros for the rest."""
        self._state = self._given

    def _value(self, spec: TensorSpec, sizes: Mapping[str, int]) -> Array:
        """Return the state as the next call takes it: zeros if there is none yet."""
        if spec.name in self._state:
            value = self._state[spec.name]
            _check_sizes(spec, value, sizes)
            return value
        if unknown := sorted(_symbols(spec) - sizes.keys()):
            raise InputError(
                f"no other input says the size '{unknown[0]}' of the state '{spec.name}'",
                hint=f"give its first value: session({spec.name}=...)",
            )
        return np.zeros([dims.evaluate(size, sizes) for size in spec.shape], spec.dtype)


def _symbols(spec: TensorSpec) -> set[str]:
    return {symbol for size in spec.shape for symbol in dims.symbols(size)}


def _check_sizes(spec: TensorSpec, value: Array, sizes: Mapping[str, int]) -> None:
    """Refuse a call whose sizes are not the stream's; what no other input says, the signature checks."""
    for size, have in zip(spec.shape, value.shape, strict=False):
        if isinstance(size, int) or not dims.symbols(size) <= sizes.keys():
            continue
        if (want := dims.evaluate(size, sizes)) != have:
            raise InputError(
                f"this stream has '{size}' = {have}, this call {want}",
                hint="one session is one stream: reset() starts it anew, session() opens another",
            )
