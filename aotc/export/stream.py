"""Streams: inputs that are the outputs of the call before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aotc.errors import RefusedError, UsageError
from aotc.export.refusals import traceback_line
from aotc.signature import Signature

Feeds = dict[str, np.ndarray[Any, Any]]
RunFlat = Callable[[Feeds], Mapping[str, np.ndarray[Any, Any]]]

STEPS = 3
"""Calls of the stream that the gate compares; the first is the example itself."""


def with_state(signature: Signature, state: Any) -> Signature:
    """Return the signature with the source's ``state``, {input name: output name}.

    Raises:
        UsageError: Names that do not exist, or an input and an output that cannot be one value.
    """
    if not isinstance(state, Mapping) or not all(isinstance(x, str) for pair in state.items() for x in pair):
        raise UsageError(f"state must be a dict {{input name: output name}}, not {state!r}", slug="state")
    stateful = signature.model_copy(update={"state": {name: state[name] for name in sorted(state)}})
    if fault := stateful.state_fault():
        inputs, outputs = ([spec.name for spec in specs] for specs in (signature.inputs, signature.outputs))
        raise UsageError(
            fault, slug="state", hint=f"inputs: {', '.join(inputs)}; outputs: {', '.join(outputs)}"
        )
    return stateful


def later_steps(example: Feeds, signature: Signature, run: RunFlat) -> list[tuple[str, bool, Feeds]]:
    """Return the calls after the example in a stream of eager's own, as given inputs; none without state.

    Args:
        example: The first call.
        signature: Says what the state is.
        run: Runs eager.

    Raises:
        UsageError: Eager refuses its own state.
    """
    steps: list[tuple[str, bool, Feeds]] = []
    feeds = example
    for step in range(2, STEPS + 1) if signature.state else ():
        outputs = _run(feeds, run, step - 1)
        feeds = feeds | {name: np.array(outputs[output]) for name, output in signature.state.items()}
        steps.append((f"example, step {step}", True, feeds))
    return steps


def _run(feeds: Feeds, run: RunFlat, step: int) -> Mapping[str, np.ndarray[Any, Any]]:
    try:
        return run(feeds)
    except RefusedError:
        raise
    except Exception as error:
        raise UsageError(
            f"eager refuses step {step} of a stream that starts with the example: "
            f"{type(error).__name__}: {error}",
            slug="eager-refuses",
            where=traceback_line(error),
            hint="correct state or inputs(): what forward returns as state is what it is given next",
        ) from error
