"""All input sets of a gate: the source's own first, then the generated ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotc.errors import InputError
from aotc.parity.inputs import Case, Feeds, generate
from aotc.signature import Signature

Given = tuple[str, bool, Feeds]
"""Label, whether eager must accept it, flat inputs."""


def all_cases(
    signature: Signature, given: Sequence[Given], *, seed: int, only: Feeds | None = None
) -> Iterator[Case]:
    """Yield every case of the gate; the example comes first.

    Args:
        signature: What the inputs may be.
        given: The source's inputs, more_inputs and bad_inputs.
        seed: Seeds the drawn values.
        only: One input set instead of everything else.
    """
    if only is not None:
        yield from one_case(signature, only)
        return
    for label, valid, feeds in given:
        yield Case(label, feeds, _sizes(signature, feeds), "given" if valid else "bad")
    yield from generate(signature, [feeds for _, valid, feeds in given if valid], seed=seed)


def one_case(signature: Signature, feeds: Feeds) -> Iterator[Case]:
    """Yield one input set alone: if eager refuses it, the engine must refuse it too.

    Raises:
        InputError: ``feeds`` lacks an input or has one that does not exist.
    """
    names = {spec.name for spec in signature.inputs}
    for what, wrong in (("lack", names - feeds.keys()), ("have the unknown name", feeds.keys() - names)):
        if wrong:
            raise InputError(f"the inputs {what} '{min(wrong)}'", hint=f"inputs: {', '.join(sorted(names))}")
    yield Case("inputs", feeds, {}, "bad")


def _sizes(signature: Signature, feeds: Feeds) -> dict[str, int]:
    try:
        return signature.check(feeds)
    except InputError:  # bad_inputs() may have any shape
        return {}
