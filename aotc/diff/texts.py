"""What a description says, as texts by name: the form in which two of them are compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping

from aotc import tree
from aotc.bundle import Description, DeviceRequirements, PassEntry
from aotc.diff.document import Difference
from aotc.parity.summary import summarise
from aotc.parity.verdict import Verdict, accuracy_text
from aotc.signature import Signature, TensorSpec

Texts = dict[str, str]


def differences(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return what only one has, or has otherwise, in the order of ``a`` and then of ``b``."""
    names = dict.fromkeys([*a, *b])
    pairs = [Difference(what=name, a=a.get(name), b=b.get(name)) for name in names]
    return tuple(pair for pair in pairs if pair.a != pair.b)


def signature_texts(signature: Signature) -> Texts:
    """Return everything about the interface; where in the model an index range comes from is not of it."""
    arguments = {
        f"argument {index}": f"{each.kind} {each.name}: {tree.text_of(each.tree)}"
        for index, each in enumerate(signature.arguments)
    }
    inputs = {f"input {spec.name}": _tensor(spec) for spec in signature.inputs}
    outputs = {f"output {spec.name}": _tensor(spec) for spec in signature.outputs}
    return arguments | {"result": tree.text_of(signature.result)} | inputs | outputs | _sizes(signature)


def _tensor(spec: TensorSpec) -> str:
    text = f"{spec.dtype} [{', '.join(map(str, spec.shape))}]"
    if spec.range is not None:
        text += f", {spec.range.low} to {spec.range.high}" + (", unique" if spec.range.unique else "")
    return text


def _sizes(signature: Signature) -> Texts:
    texts = {
        f"profile {index}, {dim}": f"{p.min} to {p.max} (opt {p.opt})"
        for index, profile in enumerate(signature.profiles)
        for dim, p in profile.items()
    }
    for dim, bounds in signature.bounds.items():
        texts[f"bounds of {dim}"] = f"{bounds.min} to {'any size' if bounds.max is None else bounds.max}"
    texts |= {f"condition {condition}": "must hold" for condition in signature.conditions}
    texts |= {f"guard {guard}": "held when traced" for guard in signature.guards}
    return texts | {f"state {name}": output for name, output in signature.state.items()}


def decision_texts(description: Description) -> Texts:
    """Return what was asked for and what was decided: options, passes and their refusals, engine files."""
    texts = {"name": description.name, "target": description.target}
    texts |= {f"option {name}": json.dumps(value) for name, value in description.options.items()}
    texts |= {f"decision {name}": json.dumps(value) for name, value in description.decisions.items()}
    return texts | dict(_passes(description.passes)) | dict(_engines(description))


def _passes(passes: tuple[PassEntry, ...]) -> Iterator[tuple[str, str]]:
    runs: Counter[str] = Counter()
    for entry in passes:
        runs[entry.name] += 1
        name = f"pass {entry.name}" + (f", run {runs[entry.name]}" if runs[entry.name] > 1 else "")
        yield name, f"{len(entry.changes)} changes, {len(entry.refusals)} refusals"
        for refusal in entry.refusals:
            yield f"{name}, refused at {refusal.where}", refusal.reason


def _engines(description: Description) -> Iterator[tuple[str, str]]:
    for engine in description.engines:
        yield f"engine {engine.file}", engine.kind
        if isinstance(engine.requires, DeviceRequirements):
            yield f"engine {engine.file}, tensorrt-rtx", engine.requires.tensorrt_rtx
            yield f"engine {engine.file}, architectures", ", ".join(engine.requires.architectures)
        elif engine.requires is not None:
            yield f"engine {engine.file}, onnxruntime", engine.requires.onnxruntime
            for flag in engine.requires.cpu_flags:
                yield f"engine {engine.file}, CPU flag {flag}", "required"


def verdict_texts(description: Description, verdict: Verdict | None) -> Texts:
    """Return the level, the sizes that were verified, and the worst figures of each output."""
    texts: Texts = {"level": description.level}
    for dim in description.signature.dims:
        sizes = sorted({sizes[dim] for sizes in description.verified_sizes if dim in sizes})
        texts[f"verified sizes of {dim}"] = ", ".join(map(str, sizes))
    if verdict is None:
        return texts
    texts["passed"] = "yes" if verdict.passed else "no"
    for each in summarise(verdict.engines):
        worst = each.worst
        bound = f"bound {worst.bound} ({worst.tolerance}), ratio {worst.ratio:.2f}"
        texts[f"output {each.name}"] = f"max abs {worst.max_abs:.2e}, {bound}, {each.cases} cases"
    if verdict.accuracy is not None:
        text = accuracy_text(verdict.accuracy, verdict.reference, verdict.level)
        texts["accuracy"] = text.removeprefix("accuracy: ")
    return texts
