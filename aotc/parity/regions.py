"""Region validation: every value that a pass computes in another way is computed in both ways and compared.

The inputs of a region are what the graph itself had there, on real inputs of the model: shapes, masks and
indices belong together as they do in a run, which no values drawn apart would. Both ways start from the same
values, so an error is seen where it is made, before the rest of the model makes less of it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.errors import RefusedError
from aotc.ir.prefix import needed, part
from aotc.ir.walk import subgraphs
from aotc.oracle import Oracle
from aotc.parity import golden
from aotc.parity.golden import Reference
from aotc.parity.inputs import Feeds
from aotc.parity.metrics import compare
from aotc.parity.onnx_float64 import WideGraph
from aotc.parity.tolerance import derive, unstable
from aotc.rewrite.manager import Rejected
from aotc.rewrite.regions import Region, attribute_key, changed_regions
from aotc.signature import Signature

Array = np.ndarray[Any, Any]
SAMPLES = 3
_INLINE_ELEMENTS = 1024
"""Constants up to this size are part of what makes two regions the same; larger ones by shape and dtype."""


class RegionValidator:
    """Compares what a pass rewrote; what was found equal once is not run again.

    Args:
        oracle: Runs both ways.
        samples: Inputs of the whole model, by label.
    """

    def __init__(self, oracle: Oracle, samples: Mapping[str, Feeds]) -> None:
        self._oracle, self._samples = oracle, samples
        self._proven: set[bytes] = set()
        self.runs = 0

    def __call__(self, before: ir.Model, after: ir.Model) -> list[Rejected]:
        """Return the regions that ``after`` computes otherwise than ``before``, with the figures."""
        groups: dict[object, list[Region]] = {}
        for index, region in enumerate(changed_regions(before, after)):
            groups.setdefault(_key(region) or index, []).append(region)
        asked = {key: group[0] for key, group in groups.items() if key not in self._proven}
        reasons: dict[object, str] = {}
        ran = 0
        for label, feeds in self._samples.items() if asked else ():
            if (values := self._values(before, asked.values(), feeds)) is None:
                continue
            ran += 1
            for key, region in asked.items():
                if (reason := self._difference(before, after, region, values)) is not None:
                    reasons.setdefault(key, f"{reason} ({label})")
        if not ran:
            reasons = dict.fromkeys(asked, "no inputs are known on which the graph runs")
        self._proven |= {key for key in asked.keys() - reasons.keys() if isinstance(key, bytes)}
        return [Rejected(region, reason) for key, reason in reasons.items() for region in groups[key]]

    def _values(self, before: ir.Model, regions: Collection[Region], feeds: Feeds) -> Feeds | None:
        """Return what goes into the regions and comes out of them; None if the graph refuses ``feeds``."""
        inner = {name for region in regions for name in (*region.inputs, region.value)} - feeds.keys()
        weights = {name: before.graph.initializers.get(name) for name in inner}
        held = {name: np.asarray(w.const_value.numpy()) for name, w in weights.items() if w and w.const_value}
        if not (computed := inner - held.keys()):
            return {**held, **feeds}
        model = part(before, [], sorted(computed))
        try:
            return {**held, **self._oracle.run(model, needed(model, feeds)), **feeds}
        except RefusedError:
            return None

    def _difference(self, before: ir.Model, after: ir.Model, region: Region, values: Feeds) -> str | None:
        """Return how the new form differs from the old on the same values; None if it does not."""
        self.runs += 1
        given, right = {name: values[name] for name in region.inputs}, np.asarray(values[region.value])
        try:
            got = self._new_value(after, region, given)
        except RefusedError as error:
            return f"the new form of '{region.value}' does not run: {error.message}"
        if _same_bits(got, right):
            return None
        if right.dtype.kind in "iu" and self._is_by_definition(before, region, given, got):
            return None
        wide = self._in_float64(before, region, given)
        figures = compare(region.value, got, right, derive(right, wide), unstable(right, wide))
        return None if figures.passed else f"the new form of '{region.value}' differs: {figures.reason}"

    def _new_value(self, after: ir.Model, region: Region, given: Feeds) -> Array:
        folded = after.graph.initializers.get(region.value)
        if folded is not None and folded.const_value is not None:
            return np.asarray(folded.const_value.numpy())
        model = part(after, region.inputs, [region.value])
        return self._oracle.run(model, needed(model, given))[region.value]

    def _is_by_definition(self, before: ir.Model, region: Region, given: Feeds, got: Array) -> bool:
        """Return whether ``got`` is what ONNX defines for the old form, and ONNX Runtime's result is not.

        Its kernels compute some sums and products of int64 in double precision, which a pass may repair.
        """
        model = part(before, region.inputs, [region.value])
        try:
            return _same_bits(got, self._oracle.define(model, needed(model, given))[region.value])
        except RefusedError:
            return False

    def _in_float64(self, before: ir.Model, region: Region, given: Feeds) -> Array | None:
        """Return the value of the old form; None where it has no float64 kernel: the bound is that for it."""
        model = part(before, region.inputs, [region.value])
        try:
            return WideGraph(model, self._oracle.threads).run(needed(model, given))[0]
        except RefusedError:
            return None


def _same_bits(got: Array, right: Array) -> bool:
    return (got.dtype, got.shape) == (right.dtype, right.shape) and got.tobytes() == right.tobytes()


def _key(region: Region) -> bytes | None:
    """Return what regions have in common that differ in names, places and the values of large constants only.

    None for a region whose rewrite computed with constants, or that has subgraphs: each of these is run.
    """
    nodes = (*region.old, *region.new)
    if region.weights or any(True for node in nodes for _ in subgraphs(node)):
        return None
    numbers: dict[str, int] = {}
    texts = []
    for node in nodes:
        attributes = [attribute_key(attribute) for attribute in node.attributes.values()]
        read = [_value(value, numbers) for value in node.inputs]
        made = [numbers.setdefault(str(value.name), len(numbers)) for value in node.outputs]
        texts.append((node.domain, node.op_type, *attributes, read, made))
    texts.append((numbers[region.value],))
    return hashlib.sha256(repr((len(region.old), texts)).encode()).digest()


def _value(value: ir.Value | None, numbers: dict[str, int]) -> object:
    if value is None:
        return None
    if value.is_initializer() and (tensor := value.const_value) is not None:
        large = tensor.size > _INLINE_ELEMENTS
        content = numbers.setdefault(f"tensor {id(tensor)}", len(numbers)) if large else tensor.tobytes()
        return str(tensor.dtype), tuple(tensor.shape.numpy()), content
    return numbers.setdefault(str(value.name), len(numbers)), str(value.dtype), str(value.shape)


def region_validator(
    oracle: Oracle, references: Sequence[Reference], cases: Path, signature: Signature
) -> RegionValidator:
    """Return the validator of a build: its samples are the smallest cases of the gate that differ in sizes.

    Args:
        oracle: Runs the regions.
        references: The cases of the gate.
        cases: Folder of their files.
        signature: Names of the inputs.
    """
    return RegionValidator(oracle, samples(references, cases, signature))


def samples(references: Sequence[Reference], cases: Path, signature: Signature) -> dict[str, Feeds]:
    """Return the inputs of the smallest cases of the gate that differ in sizes, by label."""
    names = tuple(spec.name for spec in signature.inputs)
    accepted = [r for r in references if r.outputs is not None and all(r.sizes.values())]
    accepted.sort(key=lambda r: math.prod(r.sizes.values()))
    by_size = {tuple(sorted(r.sizes.items())): r for r in reversed(accepted)}
    chosen = list(reversed(by_size.values()))[:SAMPLES]
    chosen += [r for r in accepted if r not in chosen][: SAMPLES - len(chosen)]
    return {r.label: golden.read_inputs(cases / r.inputs, names) for r in chosen}
