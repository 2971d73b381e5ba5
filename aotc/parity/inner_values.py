"""What the reference has inside: the values that an engine's graph has by the same names.

The exporter gives the values of the graph the names of the program's nodes, and passes keep the name of a
value that still means the same. So a value can be compared with what PyTorch computes at that node.
"""

from __future__ import annotations

import abc
import dataclasses
import operator
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from aotc.ir import scopes
from aotc.ir.prefix import needed, part
from aotc.oracle import Oracle
from aotc.parity.onnx_float64 import WideGraph

if TYPE_CHECKING:
    from torch import fx
    from torch.export import ExportedProgram

Array = np.ndarray[Any, Any]
Values = dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a value comes from: the module's path, the operator, and the line of the model's code."""

    module: str
    op: str
    line: str


class InnerValues(abc.ABC):
    """A reference that can be asked for inner values; ``names`` are those that it has."""

    names: frozenset[str]

    @abc.abstractmethod
    def run(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> Values:
        """Return the ``wanted`` values for flat inputs. Raises whatever the model raises."""

    @abc.abstractmethod
    def run_float64(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> Values | None:
        """Return them from a float64 run; None where an operator does not run in float64."""

    @abc.abstractmethod
    def origin(self, name: str) -> Origin:
        """Return where the value ``name`` comes from."""

    @abc.abstractmethod
    def modules(self, name: str, stops: Collection[str]) -> list[str]:
        """Return the paths of the modules that compute ``name`` from ``stops`` and the model's inputs."""


class ProgramValues(InnerValues):
    """The values of a ``torch.export`` program, run node by node.

    Args:
        program: What the graph was translated from, decomposed.
        inputs: Names of the graph's inputs, in order.
        outputs: Names of the graph's outputs, in order.
    """

    def __init__(self, program: ExportedProgram, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._program, self._inputs = program, inputs
        computed: dict[str, tuple[fx.Node, int | None]] = {}
        given: dict[str, tuple[fx.Node, int | None]] = {}
        for node in program.graph.nodes:
            (computed if node.op == "call_function" else given).update(_names(node))
        known = given | computed  # an output may be an input or a weight
        named = zip(outputs, program.graph_signature.output_specs, strict=True)
        self._nodes = computed | {
            name: known[spec.arg.name] for name, spec in named if spec.arg.name in known
        }
        self.names = frozenset(self._nodes)

    def run(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> Values:
        """Return the ``wanted`` values for flat inputs. Raises whatever the program raises."""
        import torch

        with torch.inference_mode():
            return self._run({name: torch.from_numpy(value.copy()) for name, value in feeds.items()}, wanted)

    def run_float64(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> Values | None:
        """Return them from a float64 run; None where an operator does not run in float64."""
        import torch

        from aotc.parity.upcast import float64, upcast

        tensors = {name: upcast(torch.from_numpy(value.copy())) for name, value in feeds.items()}
        try:
            with float64():
                return self._run(tensors, wanted)
        except Exception:  # noqa: BLE001 - any failure means one thing: the bound falls back, and says so
            return None

    def origin(self, name: str) -> Origin:
        """Return the module, operator and line of the program's node."""
        node, _ = self._nodes[name]
        if node.target is operator.getitem:
            node = node.args[0]  # type: ignore[assignment]
        line = scopes.line_of_stack(node.meta.get("stack_trace") or "")
        return Origin(_modules(node)[-1], str(node.target).removesuffix(".default"), line)

    def modules(self, name: str, stops: Collection[str]) -> list[str]:
        """Return the paths of the modules that compute ``name`` from ``stops`` and the model's inputs."""
        ends = {self._nodes[stop][0] for stop in stops}
        pending, seen, found = [self._nodes[name][0]], set(ends), dict[str, None]()
        while pending:
            node = pending.pop()
            if node in seen or node.op != "call_function" or not _is_floating(node):
                continue
            seen.add(node)
            found[_modules(node)[-1]] = None
            pending.extend(node.all_input_nodes)
        return list(reversed(found))

    def names_in(self, module: str, rank: int) -> list[str]:
        """Return the values of that rank which the module of this path, or one inside of it, computes."""
        return [
            name
            for name, (node, index) in self._nodes.items()
            if index is None and module in _modules(node) and node.meta["val"].ndim == rank
        ]

    def _run(self, tensors: Mapping[str, Any], wanted: Collection[str]) -> Values:
        from aotc.parity.interpreter import record

        nodes = {name: self._nodes[name] for name in wanted}
        found = record(
            self._program, [tensors[name] for name in self._inputs], {n for n, _ in nodes.values()}
        )
        values = {
            name: found[node] if index is None else found[node][index]
            for name, (node, index) in nodes.items()
        }
        return {name: np.asarray(value.contiguous().numpy()) for name, value in values.items()}


def _modules(node: fx.Node) -> list[str]:
    """Return the paths of the modules whose forward runs ``node``, outermost first; at least the root's."""
    stack = node.meta.get("nn_module_stack") or {}
    # The first is the flat wrapper, below which the user's module is called "module".
    paths = [str(path) for path, _ in stack.values()][1:] or [""]
    return [path.removeprefix("module").removeprefix(".") for path in paths]


def _is_floating(node: fx.Node) -> bool:
    import torch

    value = node.meta.get("val")
    entries = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(entry, torch.Tensor) and entry.dtype.is_floating_point for entry in entries)


def _names(node: fx.Node) -> dict[str, tuple[fx.Node, int | None]]:
    """Return the names that the tensors of ``node`` have in the graph, and where in its result they are.

    Without those that the graph has in another form, or numpy in none: complex ones, bfloat16, float8.
    """
    value = node.meta.get("val")
    if isinstance(value, list | tuple):  # the exporter's names of the entries of a split
        entries = enumerate(value)
        return {f"{node.name}_split_{index}": (node, index) for index, e in entries if _is_comparable(e)}
    return {node.name: (node, None)} if _is_comparable(value) else {}


def _is_comparable(value: Any) -> bool:
    import torch

    if not isinstance(value, torch.Tensor) or value.dtype.is_complex:
        return False
    return not value.dtype.is_floating_point or value.dtype in (torch.float16, torch.float32, torch.float64)


class OnnxValues(InnerValues):
    """The values of an ONNX file, without graph optimisations.

    Args:
        proto: The file.
        folder: Where its external data lies.
        oracle: Runs its parts.
    """

    def __init__(self, proto: onnx.ModelProto, folder: Path, oracle: Oracle) -> None:
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto)
        self._model = ir.from_proto(proto)
        ir.external_data.set_base_dir(self._model.graph, folder)
        self._wide, self._oracle = WideGraph.of_file(proto, folder, oracle.threads), oracle
        nodes = {str(value.name): node for node in self._model.graph for value in node.outputs if value.name}
        self._nodes, self.names = nodes, frozenset(nodes)

    def run(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> Values:
        """Return the ``wanted`` values for flat inputs. Raises what the oracle raises."""
        model = part(self._model, [], list(wanted))
        return self._oracle.run(model, needed(model, feeds))

    def run_float64(self, feeds: Mapping[str, Array], wanted: Collection[str]) -> Values | None:
        """Return them from a float64 run; None where an operator has no kernel for it."""
        try:
            return self._wide.inner(feeds, wanted)
        except Exception:  # noqa: BLE001 - any failure means one thing: the bound falls back, and says so
            return None

    def origin(self, name: str) -> Origin:
        """Return the file's node, with what its exporter wrote of the module."""
        node = self._nodes[name]
        return Origin(scopes.module_path(node), _title(node), scopes.source_line(node))

    def modules(self, name: str, stops: Collection[str]) -> list[str]:
        """Return what the file's exporter wrote of the modules between, or else the other nodes."""
        nodes = [node for node in part(self._model, list(stops), [name]).graph if node.op_type != "Constant"]
        own = _title(self._nodes[name])
        places = (scopes.module_path(node) or _title(node) for node in nodes)
        return list(dict.fromkeys(place for place in places if place != own))


def _title(node: ir.Node) -> str:
    return f"{node.op_type} '{node.name or node.outputs[0].name}'"
