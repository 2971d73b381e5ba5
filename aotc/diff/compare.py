"""Compares two bundles, verified and open, section by section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aotc import optional
from aotc.bundle import EngineEntry, OpenBundle, OpenParts, open_any
from aotc.diff.document import AnyDiff, BundleDiff, FileDifference, PartsDiff, Section
from aotc.diff.texts import decision_texts, differences, signature_texts, verdict_texts
from aotc.diff.weights import bytes_by_dtype, compare_weights, external_weights, inline_weights
from aotc.errors import MissingError, UsageError
from aotc.parity.recorded import recorded
from aotc.parity.verdict import Accuracy, accuracy_text

_ACCURACY = "accuracy.json"
_NO_ONNX = "operators, and weights inside the graph file, are not compared: onnx is not installed"
_UNSEEN = "bundle.json differs in something that no section shows"
_OF_THE_GRAPH: tuple[Section, ...] = ("ops", "weights", "precision")


def diff(a: Path, b: Path) -> AnyDiff:
    """Verify the bundles ``a`` and ``b`` and return what differs.

    Weights are read from their files, a chunk at a time. Where onnx is missing, operators and the weights
    inside the graph file are not compared, unless the files are equal.

    Raises:
        UsageError: One of them is of a model in parts and the other is not.
        AotcError: As :func:`aotc.bundle.open_any`.
    """
    with open_any(a, _wanted) as before, open_any(b, _wanted) as after:
        if isinstance(before, OpenParts) and isinstance(after, OpenParts):
            return _diff_parts(before, after)
        return _diff_graphs(_alone(before, after), _alone(after, before))


def _alone(bundle: OpenBundle | OpenParts, other: OpenBundle | OpenParts) -> OpenBundle:
    if isinstance(bundle, OpenBundle):
        return bundle
    raise UsageError(
        f"the bundle {bundle.path} has the parts {', '.join(bundle.parts)}, {other.path} has none",
        slug="parts",
        hint=f"name a part: {' or '.join(str(bundle.path / name) for name in bundle.parts)}",
    )


def _wanted(name: str) -> bool:
    """Return whether a file is one that is read as a whole: graphs and figures."""
    return "/" not in name and name.endswith((".onnx", ".json"))


def _diff_graphs(a: OpenBundle, b: OpenBundle) -> BundleDiff:
    before, after = a.description, b.description
    if before.digest == after.digest:
        return BundleDiff(a=before.digest, b=after.digest)
    found = BundleDiff(
        a=before.digest,
        b=after.digest,
        signature=differences(signature_texts(before.signature), signature_texts(after.signature)),
        decisions=differences(decision_texts(before), decision_texts(after)),
        producer=differences(before.producer, after.producer),
        verdict=differences(verdict_texts(before, recorded(a)), verdict_texts(after, recorded(b))),
        files=_files(a, b),
        **_graph_sections(a, b),
    )
    seen = found.changed or found.files
    return found if seen else found.model_copy(update={"notes": (*found.notes, _UNSEEN)})


def _graph_sections(a: OpenBundle, b: OpenBundle) -> dict[str, Any]:
    """Return weights, precision and operators, or what is known of them without onnx."""
    files = [_graph_file(bundle) for bundle in (a, b)]
    weights = [external_weights(bundle, file) for bundle, file in zip((a, b), files, strict=True)]
    digests = {x.description.files[file.file].sha256 for x, file in zip((a, b), files, strict=True)}
    graph: dict[str, Any] = {"precision": ()}
    if _has_onnx():
        from aotc.diff.graph import compare_operators, compare_precision, read_graph, rewired

        models = [read_graph(bundle.buffer(file.file)) for bundle, file in zip((a, b), files, strict=True)]
        weights = [w | inline_weights(model) for w, model in zip(weights, models, strict=True)]
        ops = compare_operators(*models)
        graph = {
            "ops": ops,
            "rewired": () if ops else rewired(*models),
            "precision": compare_precision(*models),
        }
    elif len(digests) > 1:
        notes = (f"{_NO_ONNX}; {optional.how_to_install('build')}",)
        graph |= {"not_compared": _OF_THE_GRAPH, "notes": notes}
    sizes = differences(*map(bytes_by_dtype, weights))
    return {**graph, "weights": compare_weights(*weights), "precision": (*sizes, *graph["precision"])}


def _has_onnx() -> bool:
    try:
        return all(map(optional.require, ("onnx", "onnx_ir")))
    except MissingError:
        return False


def _graph_file(bundle: OpenBundle) -> EngineEntry:
    """Return the engine file whose graph is compared: the portable one, which every machine builds alike."""
    engines = bundle.description.engines
    return next((engine for engine in engines if engine.kind == "portable"), engines[0])


def _files(a: OpenBundle, b: OpenBundle) -> tuple[FileDifference, ...]:
    before, after = a.description.files, b.description.files
    return tuple(
        FileDifference(
            file=name,
            a=before[name].size if name in before else None,
            b=after[name].size if name in after else None,
        )
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    )


def _diff_parts(a: OpenParts, b: OpenParts) -> PartsDiff:
    before, after = a.description, b.description
    if before.digest == after.digest:
        return PartsDiff(a=before.digest, b=after.digest)
    present, metric = ([describe(bundle) for bundle in (a, b)] for describe in (_parts, _accuracy))
    return PartsDiff(
        a=before.digest,
        b=after.digest,
        parts={name: _diff_graphs(a.parts[name], b.parts[name]) for name in a.parts if name in b.parts},
        signature=differences(*present),
        decisions=differences({"name": before.name}, {"name": after.name}),
        verdict=differences(*metric),
    )


def _parts(bundle: OpenParts) -> dict[str, str]:
    return {f"part {name}": "present" for name in bundle.parts}


def _accuracy(bundle: OpenParts) -> dict[str, str]:
    if _ACCURACY not in bundle.description.beside:
        return {}
    try:
        accuracy = Accuracy.model_validate_json(bytes(bundle.buffer(_ACCURACY)))
    except ValidationError:
        return {}
    return {"accuracy": accuracy_text(accuracy, "eager").removeprefix("accuracy: ")}
