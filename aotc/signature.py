"""The signature: names, dtypes, symbolic dims, value ranges and structure of inputs and outputs.

Compiler and runtime share it: the exporter writes it, the gate draws inputs from it, the runtime checks every
call against it. It needs neither torch nor onnx.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from aotc import dims, tree
from aotc.dims import Size
from aotc.errors import InputError, UsageError
from aotc.tree import Tree


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IndexRange(_Frozen):
    """Inclusive range of the values of an integer input that is used as an index.

    ``low`` and ``high`` may be dim expressions (``seq - 1``) where the indexed axis is dynamic. ``origin``
    says which operator and module the range comes from. ``unique`` marks positions that are written to:
    with repeated ones eager itself does not say which value stays.
    """

    low: Size
    high: Size
    origin: str
    unique: bool = False


class TensorSpec(_Frozen):
    """One flat input or output. ``shape`` holds ints and dim expressions; ``dtype`` is numpy's name."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    range: IndexRange | None = None
    """Only for inputs."""


class Profile(_Frozen):
    """Allowed sizes of one dim: ``min <= opt <= max``."""

    min: int
    opt: int
    max: int

    @model_validator(mode="after")
    def _ordered(self) -> Profile:
        if not 0 <= self.min <= self.opt <= self.max:
            raise ValueError(f"a profile needs 0 <= min <= opt <= max, not {(self.min, self.opt, self.max)}")
        return self


class Bounds(_Frozen):
    """Sizes of a dim without a profile that the model itself allows; ``max`` None means no limit is known."""

    min: int = 0
    max: int | None = None

    def intersection(self, other: Bounds) -> Bounds:
        """Return the sizes that both allow."""
        limits = [bounds.max for bounds in (self, other) if bounds.max is not None]
        return Bounds(min=max(self.min, other.min), max=min(limits) if limits else None)


class Argument(_Frozen):
    """One parameter of forward, in order."""

    name: str
    kind: Literal["positional", "variadic", "keyword"]
    tree: Tree


class Signature(_Frozen):
    """Names, dtypes, dims, ranges and structure of a compiled forward."""

    arguments: tuple[Argument, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    result: Tree
    profiles: tuple[dict[str, Profile], ...] = ()
    guards: tuple[str, ...] = ()
    """Conditions on sizes that held when the model was traced; the gate tries sizes that break them."""
    conditions: tuple[str, ...] = ()
    """Conditions on sizes; where one does not hold, eager raises or the traced graph is not right."""
    bounds: dict[str, Bounds] = {}
    state: dict[str, str] = {}
    """Input by output: in a stream the input is what the output was in the call before."""

    @model_validator(mode="after")
    def _consistent(self) -> Signature:
        for kind, specs, trees in (
            ("input", self.inputs, [a.tree for a in self.arguments]),
            ("output", self.outputs, [self.result]),
        ):
            names = [spec.name for spec in specs]
            if len(set(names)) != len(names):
                raise ValueError(f"two {kind}s share a name")
            if sorted(leaf.name for part in trees for leaf in tree.leaves(part)) != sorted(names):
                raise ValueError(f"the {kind}s are not the tensors of their structure")
        known = set(self.dims)
        if unknown := set(self.bounds).union(*self.profiles) - known:
            raise ValueError(f"no input has the dim '{min(unknown)}'")
        for spec in self.inputs:
            if spec.range is not None and not spec.dtype.startswith(("int", "uint")):
                raise ValueError(f"the input '{spec.name}' has an index range and is {spec.dtype}")
        if fault := self.state_fault():
            raise ValueError(fault)
        return self

    def state_fault(self) -> str | None:
        """Return what is wrong with ``state``: no such name, another dtype or shape, used twice; or None."""
        inputs, outputs = {s.name: s for s in self.inputs}, {s.name: s for s in self.outputs}
        for name, output in self.state.items():
            if name not in inputs or output not in outputs:
                kind, unknown = ("output", output) if name in inputs else ("input", name)
                return f"state names the {kind} '{unknown}', which does not exist"
            before, after = _type_text(inputs[name]), _type_text(outputs[output])
            if before != after:
                return f"the state '{name}' is {before}, the output '{output}' is {after}"
            if list(self.state.values()).count(output) > 1:
                return f"the output '{output}' is the next value of two states"
        for argument in self.arguments:
            kept = [leaf.name in self.state for leaf in tree.leaves(argument.tree)]
            if any(kept) and not all(kept):
                return f"the argument '{argument.name}' holds state beside other tensors"
        return None

    @property
    def dims(self) -> tuple[str, ...]:
        """Symbols of the inputs' shapes, sorted."""
        return tuple(sorted({s for spec in self.inputs for size in spec.shape for s in dims.symbols(size)}))

    def flatten_call(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the tensors of a call ``forward(*args, **kwargs)`` by input name.

        Raises:
            InputError: Missing or unknown arguments, or another structure than at build time.
        """
        return _flatten_arguments(self.arguments, args, kwargs)

    def flatten_step(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the tensors of a call in a stream: as :meth:`flatten_call`, without the state's arguments.

        Raises:
            InputError: Missing or unknown arguments, or another structure than at build time.
        """
        given = [a for a in self.arguments if not any(x.name in self.state for x in tree.leaves(a.tree))]
        return _flatten_arguments(given, args, kwargs)

    def without_size_zero(self, names: set[str]) -> Signature:
        """Return a signature that refuses size 0 of the dims in ``names``."""
        bounds = dict(self.bounds)
        for name in names:
            known = bounds.get(name, Bounds())
            bounds[name] = known.model_copy(update={"min": max(1, known.min)})
        return self.model_copy(update={"bounds": dict(sorted(bounds.items()))})

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Return whether all conditions hold at ``sizes``."""
        return all(dims.holds(condition, sizes) for condition in self.conditions)

    def with_conditions(self, conditions: Iterable[str]) -> Signature:
        """Return a signature that also refuses sizes at which one of ``conditions`` does not hold."""
        return self.model_copy(update={"conditions": tuple(dict.fromkeys((*self.conditions, *conditions)))})

    def unflatten_result(self, outputs: Mapping[str, Any]) -> Any:
        """Rebuild forward's result from the outputs by name."""
        return tree.unflatten(self.result, outputs)

    def check(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, int]:
        """Check flat inputs and return the size of every dim.

        Raises:
            InputError: A name, dtype, rank, size or index value that this signature does not allow.
        """
        expected = {spec.name for spec in self.inputs}
        if missing := sorted(expected - set(feeds)):
            raise InputError(f"the input '{missing[0]}' is missing")
        if unknown := sorted(set(feeds) - expected):
            raise InputError(
                f"there is no input '{unknown[0]}'", hint=f"inputs: {', '.join(sorted(expected))}"
            )
        for spec in self.inputs:
            _check_type(spec, feeds[spec.name])
        sizes = self._solve({spec.name: feeds[spec.name].shape for spec in self.inputs})
        self._check_profiles(sizes)
        for spec in self.inputs:
            if spec.range is not None:
                _check_range(spec, spec.range, feeds[spec.name], sizes)
        return sizes

    def bind_dims(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the sizes of the symbols that an axis of the inputs in ``shapes`` is alone."""
        sizes: dict[str, int] = {}
        for spec in self.inputs:
            for size, got in zip(spec.shape, shapes.get(spec.name, ()), strict=False):
                if isinstance(size, str) and dims.is_symbol(size):
                    sizes.setdefault(size, got)
        return sizes

    def _solve(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Bind the symbols, then compare every axis."""
        sizes = self.bind_dims(shapes)
        for spec, axis, size in [(s, axis, size) for s in self.inputs for axis, size in enumerate(s.shape)]:
            got, want = shapes[spec.name][axis], dims.evaluate(size, sizes)
            if got != want:
                label = f"'{size}' = {want}" if isinstance(size, str) else str(want)
                raise InputError(f"axis {axis} of input '{spec.name}' must be {label}, not {got}")
        return sizes

    def _check_profiles(self, sizes: Mapping[str, int]) -> None:
        for name, bounds in self.bounds.items():
            size = sizes[name]
            if size < bounds.min or (bounds.max is not None and size > bounds.max):
                high = "any size" if bounds.max is None else bounds.max
                raise InputError(f"the dim '{name}' must be {bounds.min} to {high}, not {size}")
        for condition in self.conditions:
            if not dims.holds(condition, sizes):
                raise InputError(
                    f"the compiled graph is not valid for {', '.join(f'{n}={v}' for n, v in sizes.items())}",
                    hint=f"sizes must satisfy {condition}",
                )
        if not self.profiles:
            return
        misses = [self._first_miss(profile, sizes) for profile in self.profiles]
        if all(misses):
            raise InputError(
                f"no profile allows these sizes: {misses[0]}",
                hint="build with a wider profile, or split the input",
            )

    @staticmethod
    def _first_miss(profile: Mapping[str, Profile], sizes: Mapping[str, int]) -> str | None:
        for name, allowed in profile.items():
            if not allowed.min <= sizes[name] <= allowed.max:
                return f"'{name}' must be {allowed.min} to {allowed.max}, not {sizes[name]}"
        return None


def _flatten_arguments(
    arguments: Sequence[Argument], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    values = _bind_arguments(arguments, args, kwargs)
    flat: dict[str, Any] = {}
    for argument in arguments:
        if argument.name in values:
            flat.update(tree.flatten(argument.tree, values[argument.name], argument.name))
        elif any(tree.leaves(argument.tree)):
            raise InputError(f"the argument '{argument.name}' is missing")
    return flat


def _bind_arguments(
    arguments: Sequence[Argument], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    positional = [a for a in arguments if a.kind == "positional"]
    variadic = [a.name for a in arguments if a.kind == "variadic"]
    extra = args[len(positional) :]
    if extra and not variadic:
        raise InputError(f"forward takes {len(positional)} positional arguments, not {len(args)}")
    values = {a.name: value for a, value in zip(positional, args, strict=False)}
    if variadic:
        values[variadic[0]] = extra
    known = {a.name for a in arguments}
    for name, value in kwargs.items():
        if name not in known or name in values:
            hint = f"forward takes {', '.join(sorted(known))}"
            raise InputError(f"unexpected argument '{name}'", hint=hint)
        values[name] = value
    return values


def _type_text(spec: TensorSpec) -> str:
    return f"{spec.dtype} [{', '.join(map(str, spec.shape))}]"


def _check_type(spec: TensorSpec, value: np.ndarray[Any, Any]) -> None:
    if value.dtype.name != spec.dtype:
        raise InputError(
            f"the input '{spec.name}' must be {spec.dtype}, not {value.dtype.name}",
            hint=f"pass {spec.name}.astype('{spec.dtype}') if that keeps its values",
        )
    if value.ndim != len(spec.shape):
        raise InputError(f"the input '{spec.name}' must have {len(spec.shape)} axes, not {value.ndim}")


def _check_range(
    spec: TensorSpec, allowed: IndexRange, value: np.ndarray[Any, Any], sizes: Mapping[str, int]
) -> None:
    if value.size == 0:
        return
    low, high = dims.evaluate(allowed.low, sizes), dims.evaluate(allowed.high, sizes)
    for got in (int(value.min()), int(value.max())):
        if not low <= got <= high:
            raise InputError(
                f"the input '{spec.name}' must hold values from {low} to {high}, not {got}",
                where=allowed.origin,
            )


def parse_profiles(profiles: Any, known: tuple[str, ...]) -> tuple[dict[str, Profile], ...]:
    """Read ``profiles`` of a source: a list of {dim: (min, opt, max)}.

    Raises:
        UsageError: A dim that no input has, or sizes out of order.
    """
    if not isinstance(profiles, list | tuple) or not all(isinstance(item, Mapping) for item in profiles):
        raise UsageError(
            f"profiles must be a list of {{dim: (min, opt, max)}}, not {profiles!r}", slug="profile"
        )
    return tuple(dict(_parse_profile(profile, known)) for profile in profiles)


def _parse_profile(profile: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[tuple[str, Profile]]:
    for name, sizes in profile.items():
        if name not in known:
            raise UsageError(
                f"the profile names the dim '{name}', which no input has",
                slug="profile",
                hint=f"dynamic dims of the inputs: {', '.join(known) or 'none; dynamic_shapes makes some'}",
            )
        try:
            low, opt, high = sizes
            yield name, Profile(min=low, opt=opt, max=high)
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"the profile of '{name}' must be (min, opt, max) with 0 <= min <= opt <= max, not {sizes!r}",
                slug="profile",
            ) from error
