"""Eager's side of the gate: runs the module, derives the bounds, writes case files."""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from aotc import tree
from aotc.errors import RefusedError, UsageError
from aotc.parity import golden
from aotc.parity.golden import Expected, Reference
from aotc.parity.inputs import Case
from aotc.parity.tolerance import (
    FLOOR_ULPS,
    Measured,
    Tolerance,
    derive,
    measure,
    pooled,
    regular,
    typical_size,
    unstable,
)
from aotc.signature import Signature

if TYPE_CHECKING:
    from torch import nn

Array = np.ndarray[Any, Any]
Rebuild = Callable[[Mapping[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class ReferenceModel(abc.ABC):
    """What an engine is compared with; ``signature`` names its inputs and outputs."""

    name: ClassVar[str] = "eager"
    """What messages call it."""
    signature: Signature

    @abc.abstractmethod
    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name for flat inputs. Raises whatever the model raises."""

    @abc.abstractmethod
    def run_float64(self, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
        """Return the outputs of a float64 run; None where an operator does not run in float64."""

    def raises(self, feeds: Mapping[str, Array]) -> bool:
        """Return whether the model refuses these inputs."""
        try:
            self.run(feeds)
        except Exception:  # noqa: BLE001 - which exception is the model's own choice
            return True
        return False

    def untried(self) -> tuple[str, ...]:
        """Return what a build must say of parts of the model that no input so far has reached."""
        return ()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Take what forward takes, in torch or numpy, and return its result in numpy, as an engine does."""
        flat = self.signature.flatten_call(*args, **kwargs)
        feeds = {name: np.asarray(value) for name, value in flat.items()}
        self.signature.check(feeds)
        return self.signature.unflatten_result(self.run(feeds))


@dataclasses.dataclass(frozen=True)
class Eager(ReferenceModel):
    """Runs the eager module on flat inputs.

    Args:
        module: In eval mode; never changed.
        rebuild: Turns tensors by input name into the arguments of forward.
        signature: Names and structure of the outputs.
    """

    module: nn.Module
    rebuild: Rebuild
    signature: Signature

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name, in eager's own dtype."""
        import torch

        tensors = {name: torch.from_numpy(value.copy()) for name, value in feeds.items()}
        with torch.inference_mode():
            return self._run(tensors)

    def run_float64(self, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
        """Return the outputs of a float64 run; None where an operator does not run in float64."""
        import torch

        from aotc.parity.upcast import float64, upcast

        tensors = {name: upcast(torch.from_numpy(value.copy())) for name, value in feeds.items()}
        try:
            with float64():
                return self._run(tensors)
        except Exception:  # noqa: BLE001 - any failure means one thing: the bound falls back, and says so
            torch.compiler.reset()  # torch.cond compiles, and keeps what it met under the float64 modes
            return None

    def _run(self, tensors: Mapping[str, Any]) -> dict[str, Array]:
        args, kwargs = self.rebuild(tensors)
        value = self.module(*args, **kwargs)
        if _shape_of(tree.build(value, "", root="output")) != _shape_of(self.signature.result):
            raise RefusedError(
                "forward returns another structure for other inputs",
                slug="result-structure",
                hint="return the same nested structure for every input",
            )
        flat = tree.flatten(self.signature.result, value, "output")
        return {name: _to_numpy(tensor) for name, tensor in flat.items()}


def _shape_of(part: tree.Tree) -> str:
    """Return the structure of a tree without its tensor names."""
    return str(tree.rename(part, lambda _: "").model_dump())


def _to_numpy(tensor: Any) -> Array:
    return np.asarray(tensor.detach().resolve_conj().resolve_neg().contiguous().cpu().numpy())


def write_references(
    eager: ReferenceModel,
    cases: Iterable[Case],
    directory: Path,
    configured: Mapping[str, Tolerance],
    on_case: Callable[[str], None] = lambda _: None,
) -> list[Reference]:
    """Run eager on every case and write inputs, outputs and bounds to ``directory``.

    Args:
        eager: The reference.
        cases: The inputs of the gate.
        directory: An empty folder.
        configured: Bounds by output name that the user set instead of the derived ones.
        on_case: Told the label of each case before it runs.

    Raises:
        UsageError: Eager refuses inputs that the source gave, or sizes that a profile allows.
        RefusedError: Eager is not deterministic, so nothing can be compared with it.
    """
    references: list[Reference] = []
    measured: dict[int, dict[str, Measured]] = {}
    first: tuple[Case, dict[str, Expected]] | None = None
    names = tuple(spec.name for spec in eager.signature.inputs)
    for index, case in enumerate(cases):
        on_case(case.label)
        case, expected = _expect_or_fall_back(eager, case, configured)
        inputs, outputs = f"{index:03d}.inputs.npz", f"{index:03d}.outputs.npz"
        golden.write_inputs(directory / inputs, case.feeds, names)
        if isinstance(expected, str):
            references.append(_reference(case, inputs, None, f"{eager.name} {expected}"))
            continue
        golden.write_expected(directory / outputs, expected, tuple(expected))
        references.append(_reference(case, inputs, outputs, None))
        if first is None:
            _require_deterministic(eager, case, expected)
        measured[index] = {n: e.measured for n, e in expected.items() if e.measured is not None}
        first = first or (case, expected)
    if first is not None:
        _require_deterministic(eager, *first)
    _pool(eager, references, measured, directory)
    return references


def _pool(
    eager: ReferenceModel,
    references: list[Reference],
    measured: Mapping[int, Mapping[str, Measured]],
    directory: Path,
) -> None:
    """Widen the derived bounds on disk to what all cases of an output show together."""
    outputs = tuple(spec.name for spec in eager.signature.outputs)
    bounds: dict[int, dict[str, float]] = {}
    for name in outputs:
        groups: tuple[dict[int, Measured], dict[int, Measured]] = ({}, {})
        for index, found in measured.items():
            if name in found:
                groups[references[index].kind == "hard"][index] = found[name]
        _refuse_noise(eager.name, references, name, *groups)
        for group, atols in zip(groups, pooled(*(list(g.values()) for g in groups)), strict=True):
            for index, atol in zip(group, atols, strict=True):
                bounds.setdefault(index, {})[name] = atol
    for index, wider in bounds.items():
        if references[index].outputs is None:
            continue
        path = directory / str(references[index].outputs)
        expected = golden.read_expected(path, outputs)
        golden.write_expected(path, {n: e.at_least(wider.get(n, 0.0)) for n, e in expected.items()}, outputs)


def _refuse_noise(
    eager: str,
    references: list[Reference],
    name: str,
    usual: dict[int, Measured],
    hard: dict[int, Measured],
) -> None:
    """Refuse an output that float32 cannot compute; take hard cases like that out of the comparison.

    Raises:
        RefusedError: A bound derived from such an error would let anything pass.
    """
    typical = typical_size(list(usual.values()))
    for group in (usual, hard):
        for index, found in list(group.items()):
            scale = max(found.largest, typical)
            if found.error <= found.limit * scale:
                continue
            share = f"{found.error / scale:.1%}" if scale else f"{found.error:.3g}"
            text = f"{eager} is {share} of the output '{name}' away from its own float64 result"
            label = references[index].label
            if group is usual:
                raise RefusedError(
                    f"{text} ({label}), so no engine can be compared with it",
                    slug="not-comparable",
                    hint=f"compute it in float64 in forward, or set tolerance.{_key(name)} in aotc.toml",
                )
            references[index] = references[index].model_copy(update={"outputs": None, "refusal": text})
            del group[index]


def _key(name: str) -> str:
    """Return ``name`` as a key of a TOML file."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else f'"{name}"'


def _reference(case: Case, inputs: str, outputs: str | None, refusal: str | None) -> Reference:
    return Reference(
        label=case.label, kind=case.kind, sizes=case.sizes, inputs=inputs, outputs=outputs, refusal=refusal
    )


def _expect_or_fall_back(
    eager: ReferenceModel, case: Case, configured: Mapping[str, Tolerance]
) -> tuple[Case, dict[str, Expected] | str]:
    expected = expect(eager, case.feeds, configured)
    if isinstance(expected, str) and case.fallback is not None:
        case = dataclasses.replace(case, feeds=case.fallback, fallback=None)
        expected = expect(eager, case.feeds, configured)
    if isinstance(expected, str) and case.kind in ("given", "profile"):
        what = expected.removeprefix("raises ")
        raise UsageError(
            f"{eager.name} refuses inputs that the source or a profile allows ({case.label}): {what}",
            slug="eager-refuses",
            hint="narrow the profile, or correct the example inputs",
        )
    return case, expected


def expect(
    eager: ReferenceModel, feeds: Mapping[str, Array], configured: Mapping[str, Tolerance]
) -> dict[str, Expected] | str:
    """Return eager's outputs with their bounds, or what eager says where it refuses the inputs."""
    try:
        outputs = eager.run(feeds)
    except RefusedError:
        raise
    except Exception as error:  # noqa: BLE001 - what eager raises for inputs it refuses is its own choice
        lines = str(error).strip().splitlines() or [""]
        return f"raises {type(error).__name__}: {lines[0]}"[:300]
    wide = eager.run_float64(feeds) or {}
    return {
        name: Expected(
            value,
            configured.get(name) or derive(value, wide.get(name)),
            unstable(value, wide.get(name)),
            None if name in configured else measure(value, wide.get(name)),
        )
        for name, value in outputs.items()
    }


def _require_deterministic(eager: ReferenceModel, case: Case, before: Mapping[str, Expected]) -> None:
    """Run the first case again, at once and after all others: hidden state or randomness shows.

    Compared to a few ulps whatever the tolerance: a bound derived from two runs that differ would hide that.
    """
    for name, again in eager.run(case.feeds).items():
        if not _equal(again, before[name].value):
            raise RefusedError(
                f"{eager.name} is not deterministic: "
                f"the output '{name}' changed when the same inputs ran again",
                slug="not-deterministic",
                hint="forward keeps state between calls or draws random numbers; make it explicit",
            )


def _equal(again: Array, before: Array) -> bool:
    if again.shape != before.shape or again.dtype != before.dtype:
        return False
    if again.dtype.kind not in "fc":
        return bool(np.array_equal(again, before))
    rtol = FLOOR_ULPS * float(np.finfo(before.dtype).eps)
    largest = float(np.abs(before[regular(before)]).max(initial=0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.allclose(again, before, rtol=rtol, atol=rtol * largest, equal_nan=True))
