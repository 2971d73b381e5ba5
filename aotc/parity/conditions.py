"""Sizes that the engine must refuse: learned from eager before it runs, and from the engine after.

torch.export traces one branch of every condition on sizes. ``F.instance_norm`` raises for one spatial element
(https://github.com/microsoft/onnxscript/issues/1262), a decoder pads a mask that is shorter than its keys
(https://github.com/pytorch/pytorch/issues/155862): the graph of the other sizes is not right there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

from aotc import dims
from aotc.errors import InputError
from aotc.parity.golden import Reference
from aotc.parity.sizes import Sizes, untried_guards
from aotc.parity.verdict import CaseVerdict, EngineVerdict
from aotc.signature import Signature

_MOST_DIMS = 3
_TRIED = ("given", "profile", "size")


def insisted(signature: Signature, references: Sequence[Reference]) -> tuple[str, ...]:
    """Return conditions that keep out the sizes eager refused, and none that it took.

    A condition is "these dims are not all 1", for as few dims as tell the two apart, or a guard of the trace.
    A guard that no size to try breaks is one too: where it does not hold, nothing was tried.

    Args:
        signature: With the guards of the trace.
        references: The cases; where eager refused one, it has no outputs.
    """
    tried = [reference for reference in references if reference.kind in _TRIED and reference.sizes]
    taken = [reference.sizes for reference in tried if reference.outputs is not None]
    found: dict[str, None] = {}
    for reference in tried:
        if reference.outputs is None and _allowed(list(found), reference.sizes):
            candidates = (*_not_all_one(reference.sizes), *_broken(signature.guards, reference.sizes))
            condition = next((c for c in candidates if all(_holds(c, sizes) for sizes in taken)), None)
            if condition is not None:
                found[condition] = None
    example = next(reference.sizes for reference in references)
    return (*found, *(untried_guards(signature, example) if example else ()))


def refuse_broken(
    signature: Signature, references: Sequence[Reference], engines: Sequence[EngineVerdict]
) -> tuple[tuple[EngineVerdict, ...], tuple[str, ...]]:
    """Turn sizes that break a guard and at which the engine raises into sizes that the signature refuses.

    Only where no dim of the guard has a profile, which promises its sizes, and the source's own inputs keep
    to the guard. An engine that answers there, and differs, fails the build: the user declared those sizes.

    Returns:
        The verdicts, and the guards that the signature must insist on.
    """
    profiled: set[str] = set().union(*signature.profiles)
    own = [reference.sizes for reference in references if reference.kind in ("given", "profile")]
    guards = [
        guard
        for guard in signature.guards
        if not _symbols(guard) & profiled and all(_holds(guard, sizes) for sizes in own if sizes)
    ]
    sizes_only = {reference.label for reference in references if reference.kind == "size"}
    conditions: dict[str, None] = {}

    def judged(case: CaseVerdict) -> CaseVerdict:
        broken = list(_broken(guards, case.sizes))
        if case.outcome != "engine raises" or case.label not in sizes_only or not broken:
            return case
        conditions.update(dict.fromkeys(broken))
        return case.model_copy(update={"outcome": "refused size"})

    verdicts = tuple(
        engine.model_copy(update={"cases": tuple(judged(case) for case in engine.cases)})
        for engine in engines
    )
    return verdicts, tuple(conditions)


def _not_all_one(sizes: Sizes) -> list[str]:
    ones = sorted(name for name, size in sizes.items() if size == 1)
    groups = (itertools.combinations(ones, count) for count in range(1, _MOST_DIMS + 1))
    return [f"Ne({'*'.join(group)}, 1)" for group in itertools.chain.from_iterable(groups)]


def _broken(guards: Sequence[str], sizes: Sizes) -> list[str]:
    return [guard for guard in guards if not _holds(guard, sizes)]


def _allowed(conditions: Sequence[str], sizes: Sizes) -> bool:
    return all(_holds(condition, sizes) for condition in conditions)


def _holds(condition: str, sizes: Sizes) -> bool:
    """Return whether ``condition`` holds; true where it is no arithmetic on these dims."""
    with contextlib.suppress(InputError):
        return not _symbols(condition) <= sizes.keys() or dims.holds(condition, sizes)
    return True


def _symbols(condition: str) -> frozenset[str]:
    with contextlib.suppress(InputError):
        return dims.symbols(condition)
    return frozenset()
