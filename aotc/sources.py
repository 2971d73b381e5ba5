"""What kinds of source there are, and the one place that tells them apart.

Whatever the kind, the compiler is given the same: a graph, its signature, the reference that says what is
right, and the inputs that came with the source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir

from aotc.bundle import Description, OpenBundle, verify_bundle
from aotc.config import Options
from aotc.errors import CompatibilityError, UsageError
from aotc.export.call import bind, rebuild
from aotc.export.factory import is_factory, load_factory
from aotc.export.guards import refuse_module, refuse_training
from aotc.export.hf_folder import load_hf_folder
from aotc.export.importer import Imported, given_inputs, import_module, with_index_ranges
from aotc.export.onnx_shapes import label_shapes
from aotc.export.onnx_source import OnnxSource, has_interface, import_onnx, read_source
from aotc.export.pt2 import load_program
from aotc.export.saved_files import kind_of, script_refusal, weights_error
from aotc.export.source import PartsSource, Sizes, Source, load_source, split_part
from aotc.export.timm_folder import is_timm_folder, load_timm_folder
from aotc.oracle import Oracle
from aotc.parity.cases import Given
from aotc.parity.golden_set import observed_inputs
from aotc.parity.inner_values import InnerValues, OnnxValues, ProgramValues
from aotc.parity.inputs import Feeds
from aotc.parity.onnx_float64 import WideGraph
from aotc.parity.onnx_reference import OnnxReference
from aotc.parity.reference import Eager, ReferenceModel
from aotc.signature import Signature

AnySource = Source | OnnxSource
Dims = Mapping[str, Sizes]
_DEFAULTS = Options()


@dataclasses.dataclass(frozen=True)
class Import:
    """What the import stage hands on. The graph's weights share memory with the reference's.

    ``inner`` knows what the values inside of the graph must be.
    """

    model: ir.Model
    reference: ReferenceModel
    inner: InnerValues
    given: tuple[Given, ...]
    notes: tuple[str, ...]


def is_onnx(path: Path) -> bool:
    """Return whether ``path`` names an ONNX file."""
    return path.suffix.lower() == ".onnx"


def open_source(
    path: Path, inputs: Feeds | None = None, sizes: Dims | None = None, options: Options = _DEFAULTS
) -> AnySource | PartsSource:
    """Return the source at ``path``, whatever its kind.

    Args:
        path: The file or folder; ``model.py:encoder`` is one part of a Python file.
        inputs: Example inputs of an ONNX file, by input name.
        sizes: (min, opt, max) by dim, for a source that has no profiles of its own.
        options: Say what of the source's own code may be executed.

    Raises:
        UsageError: There is no such file, it is no source, or it has inputs or profiles of its own.
        RefusedError: A TorchScript file.
        AotcError: As the loader of its kind.
    """
    if is_onnx(path):
        return OnnxSource(path, inputs, sizes or {})
    if inputs is not None:
        raise UsageError(
            "--inputs is for an ONNX file", slug="source", hint="define inputs() in a source file"
        )
    if is_timm_folder(path):
        return load_timm_folder(path, sizes)
    if path.is_dir():
        return load_hf_folder(path, sizes, trust_remote_code=options.trust_remote_code)
    match kind_of(path):
        case "program":
            return load_program(path, sizes, trust_source=options.trust_source)
        case "script":
            raise script_refusal(path)
        case "weights":
            raise weights_error(path)
    if sizes:
        raise UsageError(
            "--dim is for a source without profiles of its own",
            slug="dim",
            hint=f"write the sizes into profiles in {path.name}",
        )
    file, part = split_part(path)
    if part is None and is_factory(str(path)):
        return load_factory(str(path))
    source = load_source(file)
    return source if part is None else _part_of(source, file, part)


def _part_of(source: Source | PartsSource, file: Path, part: str) -> Source:
    parts = source.parts if isinstance(source, PartsSource) else {}
    if part not in parts:
        hint = f"parts: {', '.join(parts)}" if parts else f"give {file} alone: its model() returns one module"
        raise UsageError(f"{file} has no part '{part}'", slug="parts", hint=hint)
    return parts[part]


def one_graph(source: AnySource | PartsSource) -> AnySource:
    """Return ``source``, which must be of one graph.

    Raises:
        UsageError: It has parts; the hint names them.
    """
    if not isinstance(source, PartsSource):
        return source
    hint = f"name a part: {' or '.join(str(part.path) for part in source.parts.values())}"
    raise UsageError(f"the source has the parts {', '.join(source.parts)}", slug="parts", hint=hint)


def open_source_of(directory: Path, path: Path, options: Options = _DEFAULTS) -> AnySource | PartsSource:
    """Return the source at ``path``, with example inputs of the sizes that the bundle ``directory`` allows.

    A Python file says its sizes itself; those of others may have been given when the bundle was built.

    Raises:
        AotcError: As ``open_source`` and ``aotc.load``.
    """
    sizes = {}
    if path.is_dir() or path.suffix == ".pt2":
        description = verify_bundle(directory)
        profiles = description.signature.profiles if isinstance(description, Description) else ()
        sizes = {name: (p.min, p.opt, p.max) for name, p in profiles[0].items()} if profiles else {}
    return open_source(path, sizes=sizes, options=options)


def import_source(source: AnySource, oracle: Oracle) -> Import:
    """Turn a source into what is compiled and what it is compared with.

    Raises:
        RefusedError: This model cannot be compiled; says which part and why.
        UsageError: Its inputs, dims or profiles do not fit the model.
    """
    if isinstance(source, OnnxSource):
        proto = read_source(source)
        run = oracle.open_file(source.file)
        found = import_onnx(source, proto, run)
        label_shapes(found.model, found.signature, found.example, oracle)
        wide = WideGraph.of_file(proto, source.file.parent, oracle.threads)
        reference = OnnxReference(run, wide, found.signature)
        inner: InnerValues = OnnxValues(proto, source.file.parent, oracle)
        return Import(found.model, reference, inner, (("example", True, found.example),), found.notes)
    module = source.model()
    imported = import_module(module, source)
    imported = with_index_ranges(imported, Eager(module, imported.rebuild, imported.signature).raises)
    eager = Eager(module, imported.rebuild, imported.signature)
    given = tuple(given_inputs(source, module, imported.signature, eager.run))
    values = _program_values(imported, imported.signature)
    return Import(imported.model, eager, values, given, imported.notes)


def _program_values(imported: Imported, signature: Signature) -> InnerValues:
    names = [spec.name for spec in signature.inputs], [spec.name for spec in signature.outputs]
    return ProgramValues(imported.program, *names)


def reference_again(
    source: AnySource, bundle: OpenBundle, oracle: Oracle
) -> tuple[ReferenceModel, tuple[Given, ...]]:
    """Return the reference of a bundle that was built before, and the inputs that come with it.

    Args:
        source: The source, perhaps changed since. That of an ONNX file brings no inputs: the bundle has them.
        bundle: The bundle.
        oracle: Runs ONNX files.

    Raises:
        CompatibilityError: The source takes other arguments than the bundle.
    """
    signature = bundle.description.signature
    if isinstance(source, OnnxSource):
        proto = read_source(source)
        if not has_interface(proto, signature):
            raise CompatibilityError(
                "the file has other inputs or outputs than the bundle",
                where=source.path,
                hint="build the bundle again from this file",
            )
        run = oracle.open_file(source.file)
        wide = WideGraph.of_file(proto, source.file.parent, oracle.threads)
        observed = enumerate(observed_inputs(bundle))
        given = tuple((f"golden {i}" if i else "example", True, feeds) for i, feeds in observed)
        return OnnxReference(run, wide, signature), given
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
    return eager, tuple(given_inputs(source, module, signature, eager.run))
