"""What a pass changed: for each value that is now computed otherwise, the old and the new way to compute it.

A value that keeps its name keeps its meaning. So two graphs can be compared value by value, and what a pass
did falls into regions: each ends at one value that both graphs have and compute in different ways, and begins
at values that both have too. No pass has to say which regions it rewrote.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from aotc.ir.edit import Names, is_dead, remove, take_over
from aotc.ir.walk import subgraphs


@dataclasses.dataclass(frozen=True)
class Region:
    """One value that both graphs have, computed in two ways from ``inputs``, which both have as well.

    ``weights`` says whether a constant of the region was changed or made by the pass.
    """

    value: str
    inputs: tuple[str, ...]
    old: tuple[ir.Node, ...]
    new: tuple[ir.Node, ...]
    weights: bool


def changed_regions(before: ir.Model, after: ir.Model) -> list[Region]:
    """Return the regions in which ``after`` differs from ``before``, in the order of ``after``.

    Only the main graphs are compared value by value; a node with subgraphs is one step. Constants are part of
    the regions that read them and not values of their own: a folded weight keeps its parameter's name.
    """
    old, new = _defined(before.graph), _defined(after.graph)
    common = old.keys() & new.keys()
    return [
        _region(old[name], new[name], common)
        for name in new
        if name in common and _changed(old[name], new[name])
    ]


def restore(after: ir.Model, before: ir.Model, regions: Sequence[Region]) -> bool:
    """Let ``after`` compute the values of ``regions`` as ``before`` does.

    Returns:
        Whether that was all: where what is put back would wait for itself, because the pass computes its
        inputs from its result, everything that the pass changed is put back.
    """
    for region in regions:
        _put_back(after, before, region)
    try:
        after.graph.sort()
        alone = True
    except ValueError:  # a cycle
        rest = changed_regions(before, after)
        for region in rest:
            _put_back(after, before, region)
        regions = [*regions, *rest]
        after.graph.sort()
        alone = False
    replaced = {node for region in regions for node in region.new}
    for node in reversed(after.graph):
        if node in replaced and all(is_dead(value) for value in node.outputs):
            remove(node)
    return alone


def _put_back(after: ir.Model, before: ir.Model, region: Region) -> None:
    target = ir.convenience.create_value_mapping(after.graph, include_subgraphs=False)
    source = ir.convenience.create_value_mapping(before.graph, include_subgraphs=False)
    replaced, original = target[region.value], source[region.value]
    if original.is_initializer():
        replaced.const_value = original.const_value
        return
    old = ir.convenience.extract(before.graph, [source[name] for name in region.inputs], [original])
    names = Names(after)
    for value in old.inputs:
        value.replace_all_uses_with(target[str(value.name)])
    for value in list(old.initializers.values()):
        _adopt(after.graph, value, names)
    nodes = list(old)
    end = old.outputs[0]
    old.outputs.clear()
    old.remove(nodes)
    for node in nodes:
        for value in node.outputs:
            if value.name and value is not end:
                value.name = names.fresh(value.name)
    after.graph.extend(nodes)
    if replaced.is_initializer():
        del after.graph.initializers[region.value]
    take_over(end, replaced)


def _adopt(graph: ir.Graph, value: ir.Value, names: Names) -> None:
    """Let the constant ``value`` be one of ``graph``: the one of its name, if that holds the same tensor."""
    known = graph.initializers.get(str(value.name))
    if known is not None and known.const_value is value.const_value:
        value.replace_all_uses_with(known)
        return
    copy = ir.Value(
        name=names.fresh(str(value.name)),
        type=value.type,
        shape=value.shape,
        const_value=value.const_value,
        metadata_props=dict(value.metadata_props),
    )
    graph.register_initializer(copy)
    value.replace_all_uses_with(copy)


def _defined(graph: ir.Graph) -> dict[str, ir.Value]:
    """Return what the main graph computes or holds by name, without constants that nobody reads."""
    values = [*graph.inputs, *(v for v in graph.initializers.values() if v.uses() or v.is_graph_output())]
    values += [value for node in graph for value in node.outputs if value.name]
    return {str(value.name): value for value in values}


def _changed(old: ir.Value, new: ir.Value) -> bool:
    mine, theirs = new.producer(), old.producer()
    if mine is None and theirs is None:  # a weight counts for itself only where nobody reads it
        return old.is_initializer() and new.is_graph_output() and not _same_constant(old, new)
    if mine is None or theirs is None:
        return True
    if new.index() != old.index() or _text(mine) != _text(theirs):
        return True
    read = zip(_reads(theirs), _reads(mine), strict=True)
    return any(not _same_constant(a, b) for a, b in read if a.is_initializer())


def _same_constant(old: ir.Value, new: ir.Value) -> bool:
    return old.const_value is new.const_value


def _text(node: ir.Node) -> tuple[object, ...]:
    """Return everything that says what ``node`` computes: operator, attributes, names of what it reads."""
    attributes = [attribute_key(a) for _, a in sorted(node.attributes.items())]
    return node.domain, node.op_type, node.overload, *attributes, *(v and v.name for v in node.inputs)


def attribute_key(attribute: ir.Attr) -> object:
    """Return everything that an attribute says."""
    if attribute.is_ref():
        return attribute.name, attribute.ref_attr_name
    match attribute.type:
        case ir.AttributeType.GRAPH:
            return attribute.name, _graph_key(attribute.as_graph())
        case ir.AttributeType.GRAPHS:
            return attribute.name, *map(_graph_key, attribute.as_graphs())
        case ir.AttributeType.TENSOR:
            return attribute.name, _tensor_key(attribute.as_tensor())
        case ir.AttributeType.TENSORS:
            return attribute.name, *map(_tensor_key, attribute.as_tensors())
    return attribute.name, str(attribute.value)


def _graph_key(graph: ir.Graph) -> object:
    nodes = [(_text(node), [value.name for value in node.outputs]) for node in graph]
    return str(([value.name for value in graph.inputs], nodes, [value.name for value in graph.outputs]))


def _tensor_key(tensor: ir.TensorProtocol) -> object:
    return str(tensor.dtype), tuple(tensor.shape.numpy()), tensor.tobytes()


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield what ``node`` reads, and what its subgraphs read of the outer graph."""
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs(node):
        inner = {value for each in graph for value in each.outputs} | set(graph.inputs)
        for each in graph:
            yield from (value for value in _reads(each) if value not in inner)
        yield from (value for value in graph.outputs if value not in inner)


def _region(old: ir.Value, new: ir.Value, common: Collection[str]) -> Region:
    old_nodes, old_inputs, old_constants = _cone(old, common)
    new_nodes, new_inputs, new_constants = _cone(new, common)
    known = {id(value.const_value) for value in old_constants}
    inputs = tuple(dict.fromkeys([*old_inputs, *new_inputs]))
    weights = any(id(value.const_value) not in known for value in new_constants)
    return Region(str(new.name), inputs, tuple(old_nodes), tuple(new_nodes), weights)


def _cone(end: ir.Value, stops: Collection[str]) -> tuple[list[ir.Node], list[str], list[ir.Value]]:
    """Return the nodes that compute ``end``, the names of ``stops`` they begin at, and their constants."""
    pending, seen, nodes = [end], {end}, set[ir.Node]()
    inputs: dict[str, None] = {}
    constants: list[ir.Value] = []
    while pending:
        value = pending.pop()
        if value.is_initializer():
            constants.append(value)
        elif (value.name in stops and value is not end) or value.producer() is None:
            inputs[str(value.name)] = None
        elif (node := value.producer()) is not None and node not in nodes:
            nodes.add(node)
            read = [each for each in _reads(node) if each not in seen]
            seen.update(read)
            pending.extend(read)
    order = {node: index for index, node in enumerate(end.graph or ())}
    return sorted(nodes, key=order.__getitem__), list(inputs), constants
