"""Testing passes: golden cases that are executed, for aotc's own passes and for those of plug-ins.

A case file holds graphs before and after one pass::

    === a scale is folded into the weight
    options: max_bytes=64
    rtol: 1e-5
    atol: 1e-6
    --- before
    <ir_version: 10, opset_import: ["" : 24]>
    g (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w = ["location": "normal"]> { y = MatMul (x, w) }
    --- after
    ...

The header may have ``options`` (of the pass), ``dims`` (``N=1,2,5``: sizes of symbols, one for each
sample), ``ranges`` (``i=0..3``: values of inputs, upper end excluded), ``shapes: inferred`` (of inner values,
where the text gives none), ``reason`` (a regular expression that
a refusal matches) and ``expect: unchanged``, which takes the place of the part ``after`` and needs a
``reason``. Several settings on one line are separated by semicolons. A tensor at the location ``normal`` or
``positive`` is filled with random numbers of that kind, seeded by its name.
``rtol`` and ``atol`` must be given: there is no default tolerance.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.shape_inference
import onnx_ir as ir

from aotc.errors import UsageError
from aotc.ir.text import from_text, to_text
from aotc.ir.verify import verify
from aotc.ir.walk import graphs
from aotc.oracle import Oracle
from aotc.rewrite.contract import Context, Pass, PassResult
from aotc.rewrite.registry import parse_pass

Array = np.ndarray[Any, Any]
SAMPLES = 3
_GOLDEN_ELEMENTS = 8
_ALL_ELEMENTS = 1 << 30
_SIZES = (1, 2, 5)
_KEYS = {"options", "rtol", "atol", "dims", "ranges", "shapes", "reason", "expect"}


@dataclasses.dataclass(frozen=True)
class Case:
    """One golden case; ``after`` is None where the graph must stay as it is."""

    pass_name: str
    title: str
    header: Mapping[str, str]
    before: str
    after: str | None

    @property
    def rtol(self) -> float:
        """Return the relative tolerance of the case."""
        return float(self.header["rtol"])

    @property
    def atol(self) -> float:
        """Return the absolute tolerance of the case."""
        return float(self.header["atol"])

    def settings(self, key: str) -> dict[str, str]:
        """Return the header line ``key``, of the form ``a=1; b=2``, as a dictionary."""
        parts = [part.partition("=") for part in self.header.get(key, "").split(";") if part.strip()]
        return {name.strip(): value.strip() for name, _, value in parts}


@dataclasses.dataclass(frozen=True)
class CaseResult:
    """What a pass made of a case: its result, and the golden text of the graph after it."""

    result: PassResult
    after: str


def parse_cases(path: Path) -> list[Case]:
    """Return the cases in ``path``, whose stem is the name of the pass.

    Raises:
        UsageError: A case lacks a part or a tolerance, or has a header line that is not known.
    """
    blocks = re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [_parse_case(path.stem, block) for block in blocks]


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write ``cases`` to ``path``: the inverse of ``parse_cases``."""
    path.write_text("\n".join(map(_unparse_case, cases)), encoding="utf-8")


def run_case(case: Case, registry: Sequence[type[Pass]]) -> CaseResult:
    """Run ``case`` and check all that a pass promises, except that the text after is the expected one.

    Checked are: both graphs are valid; ``modified`` is true exactly if the text changed; inputs and outputs
    keep their names, types and shapes; a second run changes nothing; before and after compute the same on
    seeded inputs; a refusal matches ``reason``; the graph is unchanged where that is expected.
    ``check_golden`` compares the text.

    Raises:
        AssertionError: One of these does not hold.
        RefusedError: The oracle can't run the graph before or after.
    """
    current = parse_pass(f"{case.pass_name}{{{case.header.get('options', '')}}}", registry)
    context, model = Context(oracle=Oracle()), load_case(case)
    before, text_before, interface = (
        model.clone(),
        to_text(model, max_elements=_ALL_ELEMENTS),
        _interface(model),
    )
    result = current.run(model, context)
    verify(model, after=str(current))
    text_after = to_text(model, max_elements=_ALL_ELEMENTS)
    assert result.modified == (text_before != text_after), (
        f"{current} says modified={result.modified}, and the text {_changed(text_before != text_after)}"
    )
    assert _interface(model) == interface, f"{current} changed the inputs or outputs"
    _check_expectation(case, result)
    _check_values(case, before, model, context.oracle)
    again = current.run(model, context)
    assert not again.modified, f"{current} is not at its fixed point: {again.changes[0]}"
    assert to_text(model, max_elements=_ALL_ELEMENTS) == text_after, f"{current} changed the graph silently"
    return CaseResult(result, to_text(model, max_elements=_GOLDEN_ELEMENTS))


def check_golden(case: Case, outcome: CaseResult) -> None:
    """Assert that the graph after the pass has the text that the case gives."""
    if case.after is not None:
        assert outcome.after.split() == case.after.split(), (
            f"the graph after the pass is not the golden one; it is now:\n{outcome.after}"
        )


def updated(case: Case, outcome: CaseResult) -> Case:
    """Return ``case`` with the text that the pass gives now."""
    return case if case.after is None else dataclasses.replace(case, after=outcome.after)


def assert_close(actual: Array, expected: Array, *, rtol: float, atol: float, name: str = "value") -> None:
    """Assert equal types and shapes, and values within ``atol + rtol * abs(expected)``; NaN equals NaN.

    Anything but floating point must be equal exactly.

    Raises:
        AssertionError: With the place and size of the largest difference.
    """
    assert actual.dtype == expected.dtype, f"{name}: type {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{name}: shape {actual.shape}, expected {expected.shape}"
    if not np.issubdtype(expected.dtype, np.floating):
        assert np.array_equal(actual, expected), f"{name}: {actual} is not {expected}"
        return
    left, right = actual.astype(np.float64), expected.astype(np.float64)
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if not close.all():
        difference = np.where(close, 0.0, np.nan_to_num(np.abs(left - right), nan=np.inf))
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(difference), difference.shape))
        raise AssertionError(
            f"{name}{list(worst)}: {left[worst]:.9g}, expected {right[worst]:.9g} "
            f"({np.count_nonzero(~close)} of {close.size} elements differ, rtol={rtol}, atol={atol})"
        )


def load_case(case: Case) -> ir.Model:
    """Return the graph before the pass, with its random tensors filled in."""
    model = from_text(case.before)
    if case.header.get("shapes") == "inferred":
        model = ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(model), data_prop=True))
    for graph in graphs(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                value.const_value = _random_tensor(str(value.name), tensor)
    verify(model, after="parsing")
    return model


def sample_inputs(
    model: ir.Model,
    index: int,
    *,
    dims: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Array]:
    """Return seeded inputs for ``model``; ``index`` tells the samples apart.

    Args:
        model: The graph; symbolic dims get sizes, different ones in each sample.
        index: Number of the sample; a scalar bool alternates with it, so that both branches of an If run.
        dims: Sizes of symbols, one for each sample.
        ranges: Bounds of inputs, the upper one excluded; integers are in 0..4 otherwise.
    """
    feeds: dict[str, Array] = {}
    symbols: dict[str, int] = {}
    for value in model.graph.inputs:
        name = str(value.name)
        assert value.shape is not None
        assert value.dtype is not None
        shape = [_size(dim, index, symbols, dims or {}) for dim in value.shape]
        feeds[name] = _random_array(name, value.dtype, shape, index, (ranges or {}).get(name, (0, 4)))
    return feeds


def _size(
    dim: int | ir.SymbolicDim, index: int, symbols: dict[str, int], dims: Mapping[str, Sequence[int]]
) -> int:
    if isinstance(dim, int):
        return dim
    name = str(dim.value)
    sizes = dims.get(name, _SIZES)
    shift = symbols.setdefault(name, 0 if name in dims else len(symbols))
    return sizes[(index + shift) % len(sizes)]


def _random_array(
    name: str, dtype: ir.DataType, shape: Sequence[int], index: int, bounds: tuple[int, int]
) -> Array:
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng([seed, index])
    if dtype == ir.DataType.BOOL:
        return np.array((seed + index) % 2 == 0) if not shape else rng.random(shape) < 0.5
    if dtype.is_floating_point():
        return rng.standard_normal(shape).astype(dtype.numpy())
    return rng.integers(*bounds, size=shape).astype(dtype.numpy())


def _random_tensor(name: str, tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    shape, kind = tensor.shape.numpy(), str(tensor.location)
    if kind not in ("normal", "positive"):
        raise UsageError(f"'{name}' has the location '{kind}'", hint="write normal or positive")
    array = rng.standard_normal(shape) if kind == "normal" else rng.uniform(0.5, 2.0, shape)
    return ir.Tensor(np.asarray(array).astype(tensor.dtype.numpy()), name=name)


def _check_expectation(case: Case, result: PassResult) -> None:
    if case.after is None:
        assert not result.modified, f"expected no change, got: {'; '.join(result.changes)}"
    if reason := case.header.get("reason"):
        texts = [f"{refusal.where}: {refusal.reason}" for refusal in result.refusals]
        assert any(re.search(reason, text) for text in texts), f"no refusal matches '{reason}': {texts}"


def _check_values(case: Case, before: ir.Model, after: ir.Model, oracle: Oracle) -> None:
    dims = {k: [int(n) for n in v.split(",")] for k, v in case.settings("dims").items()}
    bounds = {k: v.split("..") for k, v in case.settings("ranges").items()}
    ranges = {name: (int(low), int(high)) for name, (low, high) in bounds.items()}
    for index in range(SAMPLES):
        feeds = sample_inputs(before, index, dims=dims, ranges=ranges)
        expected, actual = oracle.run(before, feeds), oracle.run(after, feeds)
        for name, array in expected.items():
            assert_close(
                actual[name], array, rtol=case.rtol, atol=case.atol, name=f"sample {index}, output '{name}'"
            )


def _interface(model: ir.Model) -> list[tuple[str, str, str]]:
    return [
        (str(value.name), str(value.dtype), str(value.shape))
        for value in (*model.graph.inputs, *model.graph.outputs)
    ]


def _changed(changed: bool) -> str:
    return "changed" if changed else "did not change"


def _parse_case(pass_name: str, block: str) -> Case:
    title, _, rest = block.partition("\n")
    header_text, *parts = re.split(r"^--- (before|after)\n", rest, flags=re.MULTILINE)
    texts = dict(zip(parts[::2], parts[1::2], strict=True))
    lines = [line.partition(":") for line in header_text.splitlines() if line.strip()]
    header = {key.strip(): value.strip() for key, _, value in lines}
    place = f"case '{title}' of {pass_name}"
    if unknown := header.keys() - _KEYS:
        raise UsageError(f"{place}: '{min(unknown)}' is not a header line", hint=f"one of {sorted(_KEYS)}")
    for key in ("rtol", "atol"):
        if key not in header:
            raise UsageError(f"{place}: no {key}", hint=f"give '{key}: 0' if the result is exact")
    unchanged = header.get("expect") == "unchanged"
    if unchanged and "reason" not in header:
        raise UsageError(f"{place}: unchanged without a reason", hint="give 'reason: <regular expression>'")
    if "before" not in texts or unchanged == ("after" in texts):
        raise UsageError(f"{place}: parts {sorted(texts)}", hint="before, and after or 'expect: unchanged'")
    return Case(pass_name, title.strip(), header, texts["before"], texts.get("after"))


def _unparse_case(case: Case) -> str:
    header = "".join(f"{key}: {value}\n" for key, value in case.header.items())
    after = "" if case.after is None else f"--- after\n{case.after.rstrip()}\n"
    return f"=== {case.title}\n{header}--- before\n{case.before.rstrip()}\n{after}"
