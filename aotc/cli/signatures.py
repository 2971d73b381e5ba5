"""The text of a signature: forward as Python writes it, its tensors, and the sizes that are allowed."""

from __future__ import annotations

from collections.abc import Sequence

from aotc import tree
from aotc.cli.output import console, say, table
from aotc.signature import Argument, Signature, TensorSpec


def print_signature(signature: Signature, verified: Sequence[dict[str, int]]) -> None:
    """Print how arguments and result nest, every tensor, and the allowed and the verified sizes."""
    say(f"\n{call_text(signature)}\n")
    rows = [_row("input", spec) for spec in signature.inputs]
    rows += [_row("output", spec) for spec in signature.outputs]
    console().print(table(["", "name", "dtype", "shape", "values"], rows))
    for name, output in signature.state.items():
        say(f"state: {name} is {output} of the call before")
    for index, profile in enumerate(signature.profiles):
        sizes = ", ".join(f"{name} {p.min} to {p.max} (opt {p.opt})" for name, p in profile.items())
        say(f"profile {index}: {sizes}")
    for name, bounds in signature.bounds.items():
        say(f"bounds: {name} {bounds.min} to {'any size' if bounds.max is None else bounds.max}")
    if verified and signature.dims:
        say(f"verified at {len(verified)} sizes: {_sizes(verified)}")


def call_text(signature: Signature) -> str:
    """Return ``forward(ids, *, mask=None) -> {logits, hidden: (h0, h1)}``."""
    parts: list[str] = []
    for argument in signature.arguments:
        if argument.kind == "keyword" and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(_argument(argument))
    return f"forward({', '.join(parts)}) -> {tree.text_of(signature.result)}"


def _argument(argument: Argument) -> str:
    star = "*" if argument.kind == "variadic" else ""
    inside = tree.text_of(argument.tree)
    return star + argument.name + ("" if inside == argument.name else f"={inside}")


def _row(kind: str, spec: TensorSpec) -> list[object]:
    values = f"{spec.range.low} to {spec.range.high}" if spec.range is not None else ""
    if spec.range is not None:
        values += (", unique" if spec.range.unique else "") + f"; {spec.range.origin}"
    return [kind, spec.name, spec.dtype, "[" + ", ".join(map(str, spec.shape)) + "]", values]


def _sizes(verified: Sequence[dict[str, int]]) -> str:
    """Return the sizes of each dim that occur; not all of their combinations do."""
    names = dict.fromkeys(name for sizes in verified for name in sizes)
    found = {name: sorted({sizes[name] for sizes in verified if name in sizes}) for name in names}
    return "; ".join(f"{name} {', '.join(map(str, sizes))}" for name, sizes in found.items())
