"""Compute once what is computed twice, and store once what is stored twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator

import onnx_ir as ir
from typing_extensions import override

from aotc.ir.constants import SOURCE, constant, digest, sample, sources
from aotc.ir.edit import remove, take_over
from aotc.ir.scopes import describe, inherit, place
from aotc.ir.walk import graphs, is_op, why_not_deterministic
from aotc.rewrite import Context, Pass, PassResult, Refusal


@dataclasses.dataclass(frozen=True)
class ShareDuplicates(Pass):
    """Let equal nodes and equal initialisers of one graph be one.

    Rewrites:
        Nodes with the same operator, attributes and inputs, and initialisers of the same type, shape and
        bytes: the first stays, the others' users are moved to it. The initialiser that stays notes the
        parameters that all of them came from. Where both nodes give graph outputs, the second becomes an
        Identity of the first.

    Requires:
        Nothing. Each graph and subgraph is looked at alone; equal nodes in two branches stay two.

    Refuses when:
        The equal nodes are random, of an unknown domain, or have subgraphs. Initialisers that are graph
        inputs (callers may set them) or graph outputs are left alone.

    Numerics:
        Exact: bytes are compared, so 0.0 and -0.0 differ and equal NaNs are equal.
    """

    @override
    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Rewrite ``model`` in place; forwards, so that what reads duplicates becomes a duplicate itself."""
        changes: list[str] = []
        refusals: list[Refusal] = []
        for graph in graphs(model):
            changes.extend(_share_initializers(graph))
            first: dict[Hashable, ir.Node] = {}
            for node in graph:
                kept = first.setdefault(_key(node), node)
                if kept is node:
                    continue
                if reason := why_not_deterministic(node):
                    refusals.append(Refusal(f"looks like {describe(kept)}, but {reason}", describe(node)))
                elif _replace(node, kept):
                    changes.append(f"{place(node)}: {node.op_type} shared with {describe(kept)}")
        return PassResult(tuple(changes), tuple(refusals))


def _share_initializers(graph: ir.Graph) -> Iterator[str]:
    """Merge equal initialisers, reading only those whose type, shape and first elements occur twice."""
    candidates = [
        v for v in graph.initializers.values() if constant(v) is not None and not v.is_graph_output()
    ]
    for alike in _groups(candidates, lambda tensor: (tensor.dtype, tuple(tensor.shape.numpy()))):
        for similar in _groups(alike, sample):
            for equal in _groups(similar, digest):
                kept, *others = equal
                kept.metadata_props[SOURCE] = ",".join(sources(equal))
                for value in others:
                    value.replace_all_uses_with(kept)
                    del graph.initializers[str(value.name)]
                    yield f"initialiser '{value.name}': shared with '{kept.name}'"


def _groups(
    values: Iterable[ir.Value], key: Callable[[ir.TensorProtocol], Hashable]
) -> Iterator[list[ir.Value]]:
    """Yield the groups of two and more values whose tensors have the same ``key``."""
    found: dict[Hashable, list[ir.Value]] = {}
    for value in values:
        if value.const_value is not None:
            found.setdefault(key(value.const_value), []).append(value)
    yield from (group for group in found.values() if len(group) > 1)


def _key(node: ir.Node) -> Hashable:
    """Return what two nodes have in common exactly if they compute the same values."""
    return (
        node.op_identifier(),
        tuple(node.inputs),
        tuple(bool(output.name) for output in node.outputs),
        tuple(sorted(_attribute_key(attribute) for attribute in node.attributes.values())),
    )


def _attribute_key(attribute: ir.Attr) -> tuple[str, str, str]:
    if attribute.is_ref():
        return attribute.name, "reference", str(attribute.ref_attr_name)
    kind = attribute.type.name
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return attribute.name, kind, f"{tensor.dtype} {tensor.shape} {digest(tensor).hex()}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return attribute.name, kind, ""
    return attribute.name, kind, repr(attribute.value)


def _replace(node: ir.Node, kept: ir.Node) -> bool:
    """Let the outputs of ``kept`` stand for those of ``node``; return False if that gains nothing."""
    pairs = list(zip(node.outputs, kept.outputs, strict=True))
    both = [(old, new) for old, new in pairs if old.is_graph_output() and new.is_graph_output()]
    if both and is_op(node, "Identity"):
        return False
    for old, new in pairs:
        if (old, new) in both:
            new = _identity(node, new)
        if old.is_graph_output():
            take_over(new, old)
        else:
            old.replace_all_uses_with(new)
    remove(node)
    return True


def _identity(node: ir.Node, source: ir.Value) -> ir.Value:
    identity = ir.Node("", "Identity", [source], num_outputs=1)
    inherit(identity, [node])
    node.prepend(identity)
    return identity.outputs[0]
