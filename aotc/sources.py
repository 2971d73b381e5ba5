"""What kinds of source there are, and the one place that tells them apart.

Whatever the kind, the compiler is given the same: a graph, its signature, the reference that says what is
right, and the inputs that came with the source.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import onnx_ir as ir

from aotc.errors import CompatibilityError
from aotc.export.call import bind, rebuild
from aotc.export.guards import refuse_module, refuse_training
from aotc.export.importer import given_inputs, import_module, with_index_ranges
from aotc.export.source import Source, load_source
from aotc.parity.cases import Given
from aotc.parity.reference import Eager, ReferenceModel
from aotc.signature import Signature


@dataclasses.dataclass(frozen=True)
class Import:
    """What the import stage hands on. The graph's weights share memory with the reference's."""

    model: ir.Model
    reference: ReferenceModel
    given: tuple[Given, ...]
    notes: tuple[str, ...]


def open_source(path: Path) -> Source:
    """Return the source at ``path``.

    Raises:
        UsageError: There is no such file, or it is no source.
    """
    return load_source(path)


def import_source(source: Source) -> Import:
    """Turn a source into what is compiled and what it is compared with.

    Raises:
        RefusedError: This model cannot be compiled; says which part and why.
        UsageError: Its inputs, dims or profiles do not fit the model.
    """
    module = source.model()
    imported = import_module(module, source)
    imported = with_index_ranges(imported, Eager(module, imported.rebuild, imported.signature).raises)
    eager = Eager(module, imported.rebuild, imported.signature)
    given = tuple(given_inputs(source, module, imported.signature))
    return Import(imported.model, eager, given, imported.notes)


def reference_again(source: Source, signature: Signature) -> tuple[ReferenceModel, tuple[Given, ...]]:
    """Return the reference of a bundle that was built before, and the inputs that came with it.

    Args:
        source: The source, perhaps changed since.
        signature: The bundle's.

    Raises:
        CompatibilityError: The source takes other arguments than the bundle.
    """
    module = source.model()
    refuse_module(module)
    refuse_training(module)
    call = bind(module, source.inputs)
    if call.arguments != signature.arguments:
        raise CompatibilityError(
            "the source's forward takes other arguments than the bundle",
            where=", ".join(argument.name for argument in call.arguments),
            hint="build the bundle again from this source",
        )
    eager = Eager(module, lambda tensors: rebuild(call, tensors), signature)
    return eager, tuple(given_inputs(source, module, signature))
