"""``aotc check --bisect``: faults at known places are found there, in engine, source, passes and export."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import tiny_hf
import tiny_models
import torch
from torch import nn

from aotc import bisect
from aotc.backends.ort_cpu.emit import emit_portable
from aotc.config import Options
from aotc.errors import UsageError
from aotc.export.hf_folder import load_hf_folder
from aotc.ir.prefix import cuts
from aotc.ir.scopes import module_path
from aotc.oracle import Oracle
from aotc.parity.findings import Finding
from aotc.parity.reference import Eager
from aotc.parity.same_nodes import by_names_of
from aotc.parity.search import first_difference
from aotc.parity.verdict import CaseVerdict
from aotc.pipeline import passes_of
from aotc.rewrite import Context, Pass, PassResult, run_passes
from aotc.runtime.unsealed import map_files
from aotc.sources import Import, import_source

ORACLE = Oracle(1)
HF: dict[str, Callable[[], Any]] = {
    "BERT": tiny_hf.bert,
    "Llama": tiny_hf.llama,
    "T5": tiny_hf.t5,
    "ResNet": tiny_hf.resnet,
    "Mixtral": tiny_hf.mixtral,
}
OWN = {"decoder": tiny_models.decoder, "cnn": tiny_models.cnn, "audio": tiny_models.audio}


@dataclasses.dataclass(frozen=True)
class Built:
    """A model whose engine is emitted and right, with its inputs."""

    imported: Import
    folder: Path
    entry: Any
    question: bisect.Question

    @property
    def module(self) -> nn.Module:
        assert isinstance(self.imported.reference, Eager)
        return self.imported.reference.module

    def find(self, edit: Callable[[ir.Graph], None] = lambda _: None) -> Finding | None:
        """Search the engine, whose graph was edited."""
        model = ir.load(self.folder / self.entry.file)
        edit(model.graph)
        for value in model.graph.initializers.values():  # what was edited lies in no file
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value.base_dir = ""
        content = ir.to_proto(model).SerializeToString()
        weights = map_files(self.folder, self.entry)
        graph = bisect.session_graph(self.entry.file, content, weights, self.question)
        inner = self.imported.inner
        return bisect.wrong_program(self.imported.reference, inner, self.question) or bisect.search_graph(
            graph, inner, self.question
        )


def build(name: str, folder: Path) -> Built:
    torch.manual_seed(0)
    source = OWN[name]() if name in OWN else load_hf_folder(tiny_hf.save(HF[name](), folder / "model"))
    imported = import_source(source, ORACLE)
    run_passes(imported.model, passes_of(Options()), Context(ORACLE))
    feeds = imported.given[0][2]
    question = bisect.Question(feeds, {}, folder / "found", threads=1)
    return Built(imported, folder, emit_portable(imported.model, folder), question)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    made: dict[str, Built] = {}

    def get(name: str) -> Built:
        if name not in made:
            made[name] = build(name, tmp_path_factory.mktemp(name))
        return made[name]

    return get


def parameters(module: nn.Module) -> list[tuple[str, str]]:
    """Return (path of the module, name) of four weights spread over the model, of modules that count."""
    found = [
        (path, name) for path, m in module.named_modules() for name, _ in m.named_parameters(recurse=False)
    ]
    weights = [(path, name) for path, name in found if name == "weight" and path]
    return [weights[round(i * (len(weights) - 1) / 3)] for i in range(4)]


def owners(module: nn.Module, parameter: nn.Parameter) -> set[str]:
    """Return the paths of the modules that hold ``parameter``: more than one where weights are tied."""
    return {
        path
        for path, m in module.named_modules(remove_duplicate=False)
        if any(p is parameter for p in m.parameters(recurse=False))
    }


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("name", [*HF, *OWN])
def test_a_weight_that_changed_in_the_source_is_found_in_its_module(
    name: str, index: int, built: Callable[[str], Built]
) -> None:
    model = built(name)
    path, weight = parameters(model.module)[index]
    parameter = model.module.get_submodule(path).get_parameter(weight)
    before = parameter.detach().clone()
    with torch.no_grad():
        parameter.mul_(1.05)
        try:
            found = model.find()
        finally:
            parameter.copy_(before)
    assert found is not None
    places = {found.module, *found.merged}
    assert places & owners(model.module, parameter), f"{found} for {path}.{weight}"
    assert found.line


def node_of(graph: ir.Graph, op: str) -> ir.Node:
    """Return the last node of that operator: one with as much before it as there can be."""
    return [node for node in graph if node.op_type == op][-1]


def attribute(op: str, **values: Any) -> Callable[[ir.Graph], ir.Node]:
    def edit(graph: ir.Graph) -> ir.Node:
        node = node_of(graph, op)
        for name, value in values.items():
            node.attributes[name] = ir.convenience.convert_attribute(name, value)
        return node

    return edit


def instead(op: str, other: str) -> Callable[[ir.Graph], ir.Node]:
    def edit(graph: ir.Graph) -> ir.Node:
        node = node_of(graph, op)
        node.op_type = other
        return node

    return edit


FAULTS: list[tuple[str, str, Callable[[ir.Graph], ir.Node]]] = [
    ("BERT", "epsilon", attribute("LayerNormalization", epsilon=0.1)),
    ("BERT", "gelu", attribute("Gelu", approximate="tanh")),
    ("BERT", "attention scale", attribute("Attention", scale=0.5)),
    ("Llama", "attention scale", attribute("Attention", scale=0.3)),
    ("Llama", "sin for cos", instead("Cos", "Sin")),
    ("T5", "attention scale", attribute("Attention", scale=0.5)),
    ("T5", "no relu", instead("Relu", "Identity")),
    ("ResNet", "no relu", instead("Relu", "Identity")),
    ("ResNet", "pads", attribute("MaxPool", pads=[0, 0, 2, 2])),
    ("Mixtral", "softmax axis", attribute("Softmax", axis=0)),
    ("decoder", "attention scale", attribute("Attention", scale=0.4)),
    ("decoder", "gelu", attribute("Gelu", approximate="tanh")),
    ("cnn", "pads", attribute("MaxPool", pads=[0, 0, 2, 2])),
    ("audio", "tanh", instead("Tanh", "Sigmoid")),
    ("audio", "slope", attribute("LeakyRelu", alpha=0.3)),
]


@pytest.mark.parametrize(("name", "what", "edit"), FAULTS, ids=[f"{n}: {w}" for n, w, _ in FAULTS])
def test_a_fault_in_the_graph_is_found_at_its_node(
    name: str, what: str, edit: Callable[[ir.Graph], ir.Node], built: Callable[[str], Built]
) -> None:
    places: list[str] = []
    found = built(name).find(lambda graph: places.append(module_path(edit(graph))))
    assert found is not None
    assert found.module == places[0], str(found)


@pytest.mark.parametrize("name", [*HF, *OWN])
def test_a_right_engine_agrees_across_every_cut(name: str, built: Callable[[str], Built]) -> None:
    """The bounds of inner values give no false alarm: each cut in turn is taken for the last."""
    model = built(name)
    content = (model.folder / model.entry.file).read_bytes()
    weights = map_files(model.folder, model.entry)
    graph = bisect.session_graph(model.entry.file, content, weights, model.question)
    inner = model.imported.inner
    found = cuts(graph.model.graph, inner.names)
    assert len(found) >= 5
    for cut in found[:: max(1, len(found) // 12)]:
        wrong = first_difference([cut], graph.run, inner, model.question.feeds, {})
        assert wrong is None, wrong
    assert model.find() is None


@dataclasses.dataclass(frozen=True)
class Spoil(Pass):
    """Wrong on purpose: turns the activation into another one."""

    op: str = "Gelu"

    def run(self, model: ir.Model, context: Context) -> PassResult:
        nodes = [node for node in model.graph if node.op_type == self.op]
        for node in nodes:
            node.op_type = "Tanh"
            node.attributes.clear()
        return PassResult(changes=tuple(f"spoiled {node.name}" for node in nodes))


@pytest.mark.parametrize("position", range(4))
def test_the_pass_that_made_it_wrong_is_found(
    position: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def passes(options: Options) -> tuple[Pass, ...]:
        right = passes_of(options)
        return (*right[: 2 * position], Spoil(), *right[2 * position :])

    monkeypatch.setattr(bisect, "passes_of", passes)
    source = tiny_models.mlp()
    question = bisect.Question({"x": np.ones((3, 8), np.float32)}, {}, tmp_path / "found", threads=1)
    found = bisect.find_pass(source, Options(), question)
    assert found is not None
    assert found.stage == "spoil{op='Gelu'}"
    assert found.first is not None
    assert found.first.op == "aten.gelu"
    assert str(found).startswith("spoil{op='Gelu'}: the output 'output' differs: max abs ")


def test_what_the_exporter_made_wrong_is_not_blamed_on_a_pass(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), Wrong()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.second(self.first(x)))

    class Wrong(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (1.5 if torch.compiler.is_exporting() else 1)

    torch.manual_seed(0)
    source = tiny_models.source(Net(), (torch.randn(3, 4),))
    question = bisect.Question({"x": np.ones((3, 4), np.float32)}, {}, tmp_path / "found", threads=1)
    found = bisect.find_pass(source, Options(), question)
    assert found is not None
    assert found.stage == "import"
    assert found.first is not None
    assert (found.first.graph, found.first.module) == ("torch.export", "second")


@pytest.mark.parametrize("name", [*HF, *OWN])
def test_an_unchanged_program_has_the_names_of_the_bundle(name: str, built: Callable[[str], Built]) -> None:
    model = built(name)
    graph = ir.load(model.folder / model.entry.file).graph
    known = by_names_of(graph, model.imported.model.graph, model.imported.inner).own
    assert known
    assert all(own == name for name, own in known.items())
    computed = {value.name for node in graph for value in node.outputs}
    assert known.keys() == computed & model.imported.inner.names


class Block(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear, self.kind = nn.Linear(8, 8), kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        match self.kind:
            case "another operator first":
                y = y * 1.0
            case "operators after one another":
                y = (y + 0) * 1.0 * 1.0
            case "another spelling":
                return (x + y / 2) * 1.5
        return (x + 0.5 * y) * 1.5


class Blocks(nn.Module):
    def __init__(self, kinds: list[str]) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*map(Block, kinds))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


@pytest.mark.parametrize("changed", [0, 2])
@pytest.mark.parametrize(
    "kind", ["another operator first", "operators after one another", "another spelling"]
)
def test_operators_that_shift_the_names_are_not_blamed(kind: str, changed: int, tmp_path: Path) -> None:
    """The source was written in another way since the bundle was built, which computes the same."""
    x = (torch.ones(3, 8),)
    torch.manual_seed(0)
    before = import_source(tiny_models.source(Blocks([""] * 4), x), ORACLE)
    torch.manual_seed(0)
    kinds = [kind if index == changed else "" for index in range(4)]
    now = import_source(tiny_models.source(Blocks(kinds), x), ORACLE)
    run_passes(before.model, passes_of(Options()), Context(ORACLE))
    question = bisect.Question(before.given[0][2], {}, tmp_path / "found", threads=1)
    model = Built(now, tmp_path, emit_portable(before.model, tmp_path), question)
    run_passes(now.model, passes_of(Options()), Context(ORACLE))
    inner = by_names_of(ir.load(tmp_path / model.entry.file).graph, now.model.graph, now.inner)
    model = dataclasses.replace(model, imported=dataclasses.replace(now, inner=inner))
    assert model.find() is None
    for fault in range(4):
        weight = model.module.get_parameter(f"blocks.{fault}.linear.weight")
        with torch.no_grad():
            weight.mul_(1.25)
            found = model.find()
            weight.div_(1.25)
        assert found is not None
        assert found.module == f"blocks.{fault}.linear", str(found)


class Kinds(nn.Module):
    """Two layers around something whose values are not all comparable by name."""

    def __init__(self, inner: str) -> None:
        super().__init__()
        self.first, self.second, self.inner = nn.Linear(8, 8), nn.Linear(8, 8), inner
        self.rnn = nn.LSTM(8, 4, bidirectional=True, batch_first=True)
        self.narrow = nn.Identity()

    def forward(self, x: torch.Tensor, unused: torch.Tensor) -> Any:
        y = getattr(self, f"_{self.inner}")(self.first(x))
        return x, self.second(y), self.second.bias, self.second(y)

    def _lstm(self, y: torch.Tensor) -> torch.Tensor:
        return self.rnn(y)[0]

    def _bfloat16(self, y: torch.Tensor) -> torch.Tensor:
        return self.narrow(y.bfloat16()).float() * 2

    def _complex(self, y: torch.Tensor) -> torch.Tensor:
        turned = torch.view_as_complex(y.reshape(3, 4, 4, 2)) * torch.polar(torch.ones(4), torch.ones(4))
        return torch.view_as_real(turned).flatten(2)

    def _cond(self, y: torch.Tensor) -> torch.Tensor:
        return torch.cond(y.sum() > 0, lambda z: z * 2, lambda z: z - 1, (y,))

    def _pieces(self, y: torch.Tensor) -> torch.Tensor:
        one, two = y.chunk(2, -1)
        return torch.cat([one.topk(4)[0], two.sort(-1)[0]], -1)


@pytest.mark.parametrize("inner", ["lstm", "bfloat16", "complex", "cond", "pieces"])
@pytest.mark.parametrize("weight", ["first.weight", "second.bias"])
def test_kinds_of_values(inner: str, weight: str, tmp_path: Path) -> None:
    """Values without a like in numpy, several results of one operator, outputs that are inputs or weights."""
    torch.manual_seed(0)
    source = tiny_models.source(Kinds(inner), (torch.randn(3, 4, 8), torch.randn(2)))
    imported = import_source(source, ORACLE)
    run_passes(imported.model, passes_of(Options()), Context(ORACLE))
    question = bisect.Question(imported.given[0][2], {}, tmp_path / "found", threads=1)
    model = Built(imported, tmp_path, emit_portable(imported.model, tmp_path), question)
    assert model.find() is None
    with torch.no_grad():
        model.module.get_parameter(weight).mul_(1.3)
    found = model.find()
    assert found is not None
    path = weight.partition(".")[0]
    assert path in (found.module, *found.merged) or found.value == "output.2", str(found)
    assert found.line.partition(":")[0] in ("test_bisect.py", ""), str(found)


def test_a_right_build_has_no_guilty_pass(tmp_path: Path) -> None:
    question = bisect.Question({"x": np.ones((3, 8), np.float32)}, {}, tmp_path / "found", threads=1)
    assert bisect.find_pass(tiny_models.mlp(), Options(), question) is None
    assert bisect.find_value_of_source(tiny_models.mlp(), Options(), question) is None


def test_what_eager_refuses_has_no_right_value(tmp_path: Path) -> None:
    case = CaseVerdict(label="one", sizes={}, outcome="engine accepts")
    with pytest.raises(UsageError, match="eager refuses these inputs"):
        bisect.Question.of(case, {}, tmp_path, 1, lambda *_: None)
