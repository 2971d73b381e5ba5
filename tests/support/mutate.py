"""Every kind of mutant, and a spread of them for one graph."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator

import mutate_attributes as attributes
import mutate_masks as masks
import mutate_values as values
import mutate_wiring as wiring
import numpy as np
import onnx_ir as ir
from mutate_edit import Array, Kind, Subject

KINDS: dict[str, tuple[Kind, ...]] = {
    "weight times 1.01": (values.scaled,),
    "one element of a weight": (values.one_element,),
    "one row of a table": (values.one_row,),
    "weight through fp16": (values.through_half,),
    "bias lost": (values.bias_lost,),
    "rows off by one": (values.rows_shifted,),
    "weight transposed": (values.transposed,),
    "filter flipped": (values.filter_flipped,),
    "two weights swapped": (values.weights_swapped,),
    "gates swapped": (values.gates_swapped,),
    "number times 1.01": (values.number, attributes.coefficient),
    "epsilon": (values.epsilon, attributes.epsilon),
    "integer off by one": (values.off_by_one,),
    "axis": (values.axes, attributes.axis),
    "erf or tanh": (attributes.gelu,),
    "attention scale": (attributes.attention_scale,),
    "causal or not": (attributes.causal,),
    "pads and dilations": (attributes.windows,),
    "switch": (attributes.flag,),
    "direction": (attributes.direction,),
    "transposition": (attributes.permutation,),
    "operands swapped": (wiring.operands,),
    "parts swapped": (wiring.parts,),
    "mask dropped": (masks.mask_dropped, masks.mask_of_ones, values.fill_value),
    "mask read as a length": (masks.mask_as_length,),
    "mask off by one": (masks.mask_shifted,),
    "first row for all": (masks.first_row,),
    "activation or norm dropped": (wiring.dropped,),
    "one of two dropped": (wiring.residual_dropped,),
    "another operator": (wiring.other_operator,),
    "through fp16": (wiring.through(ir.DataType.FLOAT16),),
    "through bf16": (wiring.through(ir.DataType.BFLOAT16),),
    "output permuted": (wiring.outputs,),
    "wrong heads": (wiring.heads,),
    "positions off by one": (wiring.positions,),
    "state dropped": (wiring.state_dropped,),
    "size of the example": (wiring.baked,),
}
ROUNDING = frozenset({"through fp16", "through bf16"})
"""Kinds whose mutants equal the original in exact arithmetic, and only there."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A graph with one thing changed."""

    kind: str
    where: str
    model: ir.Model


def mutants(model: ir.Model, name: str, example: dict[str, Array], each: int) -> Iterator[Mutant]:
    """Yield up to ``each`` mutants of every kind; ``name`` seeds which.

    Args:
        model: The graph that a build would emit; it is not changed.
        name: The model's name.
        example: Inputs that the graph accepts.
        each: How many of a kind.
    """
    for kind in KINDS:
        seed = [zlib.crc32(name.encode()), zlib.crc32(kind.encode())]
        count = len(_sites(model, kind, example, seed))
        for index in sorted(np.random.default_rng(seed).permutation(count)[:each]):
            copy = model.clone()
            where, edit = _sites(copy, kind, example, seed)[index]
            edit()
            wiring.forget_shapes(copy)
            yield Mutant(kind, where, copy)


def _sites(model: ir.Model, kind: str, example: dict[str, Array], seed: list[int]) -> list:
    subject = Subject(model, example, np.random.default_rng(seed))
    return [site for find in KINDS[kind] for site in find(subject)]
