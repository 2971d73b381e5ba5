"""Models that are refused, and models that fail the gate."""

from __future__ import annotations

import dataclasses
from unittest import mock

import onnx_ir as ir

from aotc import pipeline
from aotc.parity import validate
from aotc.rewrite import Context, Pass, PassResult
from error_cases.registry import build, case, net


@case("RefusedError", "data-dependent")
def a_branch_on_the_data() -> None:
    net("if x.sum() > 0:\n    x = x + 1\nreturn x")
    build()


@case("RefusedError", "export")
def torch_export_stops() -> None:
    net("return torch.tensor(x.numpy()) + x")
    build()


@case("RefusedError", "simplify")
def chunks_of_a_dim_that_is_not_known() -> None:
    net("a, b, c = x.chunk(3, dim=1)\nreturn a + b + c", end='dynamic_shapes = ({1: "n"},)')
    build()


@case("RefusedError", "translation")
def a_translation_of_ours_that_fails() -> None:
    net("return x.sort(1)[0]")
    broken = AssertionError("the rank is not known")
    with mock.patch("aotc.export.translations.sort.rank", side_effect=broken):
        build()


@case("RefusedError", "translation")
def a_translation_of_torch_that_fails() -> None:
    net("return torch.nn.functional.pad(x, (1, 1))")
    broken = TypeError("unhashable type")
    with mock.patch("onnxscript.function_libs.torch_lib.ops.nn._process_padding", side_effect=broken):
        build()


@case("RefusedError", "unsupported-operator")
def an_operator_without_a_translation() -> None:
    net("return torch.linalg.svd(x)[1]")
    build()


@case("RefusedError", "unsupported-operator")
def a_layer_without_a_kernel() -> None:
    init = "self.layer = nn.LSTM(3, 4, proj_size=2)"
    net("return self.layer(x)[0]", init=init)
    build()


@case("RefusedError", "random-operator")
def random_numbers() -> None:
    net("return x + torch.rand(3)")
    build()


@case("RefusedError", "module-state")
def a_buffer_that_forward_changes() -> None:
    net("self.count += 1\nreturn x + self.count", init='self.register_buffer("count", torch.zeros(1))')
    build()


@case("RefusedError", "module-state")
def an_attribute_that_forward_sets() -> None:
    net("self.last = x * 2\nreturn self.last")
    build()


@case("RefusedError", "input-mutation")
def an_input_that_forward_changes() -> None:
    net("return x.add_(1)")
    build()


@case("RefusedError", "train-mode")
def a_model_in_train_mode() -> None:
    net("return self.drop(x)", init="self.drop = nn.Dropout()", made="Net()")
    build()


@case("RefusedError", "script-module")
def a_scripted_model() -> None:
    net("return x + 1", made="torch.jit.trace(Net().eval(), torch.ones(2, 3))")
    build()


@case("RefusedError", "specialised-dim")
def a_dim_that_the_model_fixes() -> None:
    net("return [x[i] for i in range(x.shape[0])]", end='dynamic_shapes = ({0: "batch"},)')
    build()


@case("RefusedError", "specialised-dim")
def dims_that_must_be_equal() -> None:
    shapes = 'dynamic_shapes = {"x": {0: "a"}, "y": {0: "b"}}'
    net("return x * y", arguments="x, y", inputs="(torch.ones(3, 2), torch.ones(3, 2))", end=shapes)
    build()


@case("RefusedError", "result-structure")
def a_result_without_tensors() -> None:
    net("return {}")
    build()


@case("RefusedError", "unsupported-dtype")
def an_input_of_a_dtype_without_arrays() -> None:
    net("return x + 1", inputs="(torch.ones(2, 3, dtype=torch.bfloat16),)")
    build()


@case("RefusedError", "unsupported-type")
def a_result_of_a_type_without_names() -> None:
    net("return [object(), x]")
    build()


@case("RefusedError", "data-assertion")
def an_assertion_that_has_no_graph() -> None:
    net("torch._check(i[0].item() // 2 < 7)\nreturn i * 2", arguments="i", inputs="(torch.tensor([3, 1]),)")
    build()


@case("RefusedError", "not-deterministic")
def a_model_that_counts() -> None:
    net("Net.calls += 1\nreturn x * Net.calls", end="Net.calls = 0")
    build()


@case("RefusedError", "not-comparable")
def a_model_beyond_float32() -> None:
    body = "return torch.frac(torch.sin(x * 12.9898) * 43758.5453)"
    net(body, inputs="(torch.randn(4, 5, generator=torch.Generator().manual_seed(0)),)")
    build()


@case("ParityError", "parity")
def an_engine_that_differs() -> None:
    net("return x * (1.5 if torch.compiler.is_exporting() else 1)")
    build()


@case("VerdictError", "parity")
def a_metric_that_the_engine_makes_nan() -> None:
    metric = "def accuracy(run):\n    calls.append(1)\n    return 1.0 if len(calls) < 2 else float('nan')"
    net("return x * 2", end=f"calls = []\n\n\n{metric}")
    build()


@case("VerdictError", "validate")
def a_pass_that_is_wrong() -> None:
    @dataclasses.dataclass(frozen=True)
    class Doubles(Pass):
        def run(self, model: ir.Model, context: Context) -> PassResult:
            out = model.graph.outputs[0]
            node = ir.Node("", "Add", [out, out], name="doubled")
            node.outputs[0].name, out.name = out.name, "single"
            node.outputs[0].type, node.outputs[0].shape = out.type, out.shape
            model.graph.append(node)
            model.graph.outputs[0] = node.outputs[0]
            return PassResult(("doubled",), ())

    net("return torch.relu(x)")
    unseen = mock.patch.object(validate, "region_validator", return_value=None)  # which would put it back
    with unseen, mock.patch.object(pipeline, "OPTIMISE", (Doubles(),)):
        build("net.py", "--validate", "each")


@case("VerdictError", "expect-fused")
def fewer_attentions_than_expected() -> None:
    net("w = (x @ x.T).softmax(-1)\nreturn w @ x, w")
    build("net.py", "--expect-fused", "attention=1")


@case("RefusedError", "ort-cpu")
def a_graph_without_a_kernel() -> None:
    net("return (x.bfloat16() @ x.bfloat16().T).float()")
    build()
