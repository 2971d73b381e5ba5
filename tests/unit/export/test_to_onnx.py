"""What the importer hands on: names, scopes and lines kept, nothing copied, no name of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import tiny_models
import torch
from aotc_passes.optimise import PASSES
from tiny_models import Call, seeded, source
from torch import nn
from torch.export import Dim

from aotc.export.importer import import_module
from aotc.export.source import load_source
from aotc.export.to_onnx import SOURCE
from aotc.ir import scopes
from aotc.oracle import Oracle
from aotc.pipeline import OPTIMISE, RAISE
from aotc.rewrite import Context, run_passes

X = torch.randn(2, 3)


def graph_of(module: nn.Module, inputs: Any = (X,), shapes: Any = None) -> ir.Model:
    return import_module(module.eval(), source(module, inputs, shapes)).model


def decoder_model() -> tuple[nn.Module, ir.Model]:
    wanted = tiny_models.decoder()
    module = wanted.model()
    return module, import_module(module, wanted).model


@pytest.mark.parametrize("passes", [(), *((kind(),) for kind in PASSES), RAISE + OPTIMISE], ids=str)
def test_weights_are_named_after_parameters_and_nodes_after_modules(passes: tuple[Any, ...]) -> None:
    module, model = decoder_model()
    run_passes(model, passes, Context(Oracle()))
    parameters = dict(module.named_parameters())
    weighted = 0
    for node in model.graph.all_nodes():
        if node.op_type in ("MatMul", "Gemm"):
            for value in node.inputs[1:]:
                if value is not None and value.is_initializer():
                    assert value.metadata_props[SOURCE] in parameters
                    assert str(value.name).startswith(value.metadata_props[SOURCE])
                    weighted += 1
    assert weighted >= 9  # four in each layer, and the head
    paths = {scopes.module_path(node) for node in model.graph.all_nodes()}
    linears = {f"layers.{i}.{part}" for i in (0, 1) for part in ("qkv", "out", "fc", "proj", "norm")}
    assert linears <= paths
    for node in model.graph.all_nodes():
        if scopes.module_path(node).startswith("layers."):
            assert scopes.source_line(node).startswith(("tiny_models.py:", "linear.py:", "normalization.py:"))


def test_no_metadata_names_this_machine() -> None:
    _, model = decoder_model()
    run_passes(model, RAISE + OPTIMISE, Context(Oracle()))
    proto = ir.to_proto(model)
    texts = [proto.doc_string, *(p.value for p in proto.metadata_props)]
    for holder in (proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.initializer):
        texts += [holder.doc_string, *(p.value for p in getattr(holder, "metadata_props", []))]
    assert any("torch/nn/modules/linear.py" in text for text in texts)
    for text in texts:
        assert "/root" not in text
        assert str(Path(__file__).parent) not in text
        assert 'File "/' not in text
        assert "aotc/export" not in text


def test_a_source_file_gives_the_same_graph_in_another_folder(tmp_path: Path) -> None:
    text = (
        "import torch\n\nclass M(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x.relu() + 1\n\n"
        "def model():\n    return M().eval()\n\ndef inputs():\n    return (torch.ones(3),)\n"
    )
    found = []
    for folder in ("one", "another"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "net.py"
        path.write_text(text)
        loaded = load_source(path)
        model = import_module(loaded.model(), loaded).model
        found.append(ir.to_proto(model).SerializeToString(deterministic=True))
    assert found[0] == found[1]
    assert b"net.M" in found[0]


def test_initialisers_share_memory_with_the_parameters() -> None:
    module = Call(
        lambda self, x: self.fc(x) @ self.mixed + self.conv(x[None]).sum() + self.offset,
        fc=nn.Linear(3, 300),
        mixed=nn.Parameter(torch.randn(300, 400)),
        conv=nn.Conv1d(2, 300, 3),
        offset=torch.randn(400),
    )
    model = graph_of(module)
    by_address = {t.data_ptr(): name for name, t in (*module.named_parameters(), *module.named_buffers())}
    shared = set()
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor is None or SOURCE not in value.metadata_props or tensor.nbytes < 1024:
            continue
        address = tensor.numpy().__array_interface__["data"][0]
        assert by_address[address] == value.metadata_props[SOURCE]
        shared.add(value.metadata_props[SOURCE])
    assert shared == {"fc.weight", "fc.bias", "mixed", "conv.weight", "conv.bias", "offset"}


def test_a_transposed_weight_is_a_view_until_it_is_written() -> None:
    module = nn.Linear(30, 20)
    model = graph_of(module, (torch.randn(2, 5, 30),))
    (value,) = [v for v in model.graph.initializers.values() if v.metadata_props.get(SOURCE) == "weight"]
    array = value.const_value.numpy()
    assert array.__array_interface__["data"][0] == module.weight.data_ptr()
    if value.name == "weight.transposed":
        assert array.shape == (30, 20)
        assert not array.flags["C_CONTIGUOUS"]
    assert value.const_value.tobytes() == array.copy(order="C").tobytes()


def test_a_weight_used_twice_is_one_initialiser() -> None:
    module = Call(lambda self, x: self.fc(x) + self.fc(x + 1) + x @ self.fc.weight, fc=nn.Linear(3, 3))
    model = graph_of(module)
    names = [n for n, v in model.graph.initializers.items() if v.metadata_props.get(SOURCE) == "fc.weight"]
    assert 1 <= len(names) <= 2  # as it is, and transposed: two views of one memory


def test_input_axes_without_a_dim_are_numbers() -> None:
    module = Call(lambda self, x: x * 2)
    model = graph_of(module, (X,), {"args": ({0: Dim.DYNAMIC},)})
    assert [str(size) for size in model.graph.inputs[0].shape] == ["args_0_0", "3"]


def test_the_order_of_subgraph_values_keeps_user_dims() -> None:
    model = graph_of(seeded(tiny_models.Mlp), (torch.randn(3, 8),), ({0: "batch"},))
    labels = {str(d) for node in model.graph for o in node.outputs if o.shape for d in o.shape}
    assert "batch" in labels
    assert not any(label.startswith("s") and label[1:].isdigit() for label in labels)
