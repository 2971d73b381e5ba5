"""The emit stage of ort-cpu: where tensors go, what is shared, and that what was written runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from aotc.backends.ort_cpu import INLINE_BYTES
from aotc.backends.ort_cpu.build import specialise
from aotc.backends.ort_cpu.emit import emit_portable
from aotc.backends.ort_cpu.optimise import emit_optimised
from aotc.errors import RefusedError
from aotc.runtime import requirements_here

RNG = np.random.default_rng(0)
BIG = RNG.standard_normal((64, 64)).astype(np.float32)
FILTERS = RNG.standard_normal((32, 16, 3, 3)).astype(np.float32)
SMALL = RNG.standard_normal(64).astype(np.float32)


def from_text(text: str, **tensors: np.ndarray[Any, Any]) -> ir.Model:
    model = ir.from_onnx_text(text)
    for name, array in tensors.items():
        shape, dtype = ir.Shape(array.shape), ir.DataType.from_numpy(array.dtype)
        known = next(
            v for node in model.graph.all_nodes() for v in node.inputs if v is not None and v.name == name
        )
        known.type, known.shape, known.const_value = ir.TensorType(dtype), shape, ir.Tensor(array, name=name)
        model.graph.inputs.remove(known)
        model.graph.register_initializer(known)
    return model


def linear() -> ir.Model:
    return from_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        main (float[batch, 64] x, float[64, 64] big, float[64] small) => (float[batch, 64] y) {
            product = MatMul(x, big)
            sum = Add(product, small)
            y = Relu(sum)
        }""",
        big=BIG,
        small=SMALL,
    )


def convolution() -> ir.Model:
    return from_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        main (float[batch, 16, 8, 8] x, float[32, 16, 3, 3] filters) => (float[batch, 32, 8, 8] y) {
            c = Conv <pads = [1, 1, 1, 1]> (x, filters)
            y = Relu(c)
        }""",
        filters=FILTERS,
    )


def convolutions_side_by_side() -> ir.Model:
    """Each one's result is put back into the usual order of channels, by a node that the runtime names."""
    names = [f"c{index}" for index in range(8)]
    layers = [f"{name} = Conv <pads = [1, 1, 1, 1]> (x, filters_{name})" for name in names]
    return from_text(
        f"""<ir_version: 10, opset_import: ["" : 21]>
        main (float[batch, 16, 8, 8] x, {", ".join(f"float[32, 16, 3, 3] filters_{n}" for n in names)})
            => (float[batch, 256, 8, 8] y) {{
            {chr(10).join(layers)}
            {chr(10).join(f"a_{name} = Softmax({name})" for name in names)}
            y = Concat <axis = 1> ({", ".join(f"a_{name}" for name in names)})
        }}""",
        **{f"filters_{name}": FILTERS + index for index, name in enumerate(names)},
    )


def run(path: Path, **feeds: np.ndarray[Any, Any]) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def external(path: Path) -> dict[str, dict[str, str]]:
    model = onnx.load(path, load_external_data=False)
    return {
        t.name: {entry.key: entry.value for entry in t.external_data}
        for t in model.graph.initializer
        if t.data_location == onnx.TensorProto.EXTERNAL
    }


def test_large_tensors_go_to_the_weights_file_on_a_page_and_small_ones_stay(tmp_path: Path) -> None:
    entry = emit_portable(linear(), tmp_path)
    assert [t.name for t in entry.tensors] == ["big"]
    assert SMALL.nbytes < INLINE_BYTES <= BIG.nbytes
    (tensor,) = entry.tensors
    assert tensor.offset % 4096 == 0
    data = (tmp_path / "weights").read_bytes()[tensor.offset : tensor.offset + tensor.length]
    np.testing.assert_array_equal(np.frombuffer(data, np.float32).reshape(64, 64), BIG)
    assert external(tmp_path / "model.onnx") == {
        "big": {"location": "weights", "offset": str(tensor.offset), "length": str(tensor.length)}
    }


def test_the_model_lets_go_of_its_tensors(tmp_path: Path) -> None:
    model = linear()
    emit_portable(model, tmp_path)
    tensor = model.graph.initializers["big"].const_value
    assert isinstance(tensor, ir.ExternalTensor)
    np.testing.assert_array_equal(tensor.numpy(), BIG)


def test_what_was_written_runs(tmp_path: Path) -> None:
    emit_portable(linear(), tmp_path)
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    expected = np.maximum(x.astype(np.float64) @ BIG + SMALL, 0)
    np.testing.assert_allclose(run(tmp_path / "model.onnx", x=x), expected, rtol=1e-5, atol=1e-5)


def test_without_large_tensors_there_is_no_weights_file(tmp_path: Path) -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]> main (float[n] x) => (float[n] y) { y = Relu(x) }"""
    )
    assert emit_portable(model, tmp_path).tensors == ()
    assert not (tmp_path / "weights").exists()


def test_tensors_of_subgraphs_stay_inline(tmp_path: Path) -> None:
    then, other = (
        ir.from_onnx_text(
            f"""<ir_version: 10, opset_import: ["" : 21]>
            branch () => (float[64, 64] out) <float[64, 64] w> {{ out = {op}(w) }}"""
        )
        for op in ("Abs", "Neg")
    )
    graphs = []
    for branch in (then, other):
        value = next(v for node in branch.graph for v in node.inputs if v is not None)
        value.const_value = ir.Tensor(BIG, name="w")
        branch.graph.initializers.add(value)
        graphs.append(branch.graph)
    condition = ir.val("condition", ir.DataType.BOOL, [])
    node = ir.node("If", [condition], attributes={"then_branch": graphs[0], "else_branch": graphs[1]})
    node.outputs[0].name, node.outputs[0].shape = "y", ir.Shape([64, 64])
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([condition], node.outputs, nodes=[node], opset_imports={"": 21}, name="main")
    entry = emit_portable(ir.Model(graph, ir_version=10), tmp_path)
    assert entry.tensors == ()
    np.testing.assert_array_equal(run(tmp_path / "model.onnx", condition=np.array(False)), -BIG)
    optimised = emit_optimised(tmp_path, entry, requirements_here())
    assert not any(t.name.startswith("w") and t.file == "weights" for t in optimised.tensors)
    np.testing.assert_array_equal(run(tmp_path / "model.ort-optimised.onnx", condition=np.array(False)), -BIG)


def test_the_optimised_session_shares_the_weights_that_are_byte_equal(tmp_path: Path) -> None:
    portable = emit_portable(linear(), tmp_path)
    optimised = emit_optimised(tmp_path, portable, requirements_here())
    assert {(t.file, t.offset, t.length) for t in optimised.tensors} == {
        (t.file, t.offset, t.length) for t in portable.tensors
    }
    assert not (tmp_path / "weights.ort-optimised").exists()
    assert optimised.requires == requirements_here()


def test_rewritten_filters_get_a_file_of_their_own(tmp_path: Path) -> None:
    portable = emit_portable(convolution(), tmp_path)
    optimised = emit_optimised(tmp_path, portable, requirements_here())
    operators = {
        node.domain for node in onnx.load(tmp_path / optimised.file, load_external_data=False).graph.node
    }
    if "com.microsoft.nchwc" not in operators:
        pytest.skip("this CPU's ONNX Runtime does not reorder convolution filters: nothing is rewritten")
    assert {t.file for t in optimised.tensors} == {"weights.ort-optimised"}
    x = RNG.standard_normal((2, 16, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(
        run(tmp_path / optimised.file, x=x), run(tmp_path / portable.file, x=x), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("make", [linear, convolution, convolutions_side_by_side])
def test_bytes_are_equal_over_builds_and_folders(make: Any, tmp_path: Path) -> None:
    contents = []
    for name in ("first", "another folder", "a third", "a fourth", "a fifth"):
        folder = tmp_path / name
        folder.mkdir()
        portable = emit_portable(make(), folder)
        emit_optimised(folder, portable, requirements_here())
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert all(content == contents[0] for content in contents[1:])


def test_the_optimiser_runs_in_a_child_and_leaves_no_scratch_files(tmp_path: Path) -> None:
    portable = emit_portable(linear(), tmp_path)
    told: list[str] = []
    entry = specialise(tmp_path, portable, told.append)
    assert entry == emit_entry_again(tmp_path, portable)
    assert told
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.onnx",
        "model.ort-optimised.onnx",
        "weights",
    ]


def emit_entry_again(folder: Path, portable: Any) -> Any:
    return emit_optimised(folder, portable, requirements_here())


def test_a_graph_that_the_runtime_refuses_is_a_refusal(tmp_path: Path) -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21, "of.tomorrow": 1]>
        main (float[n] x) => (float[n] y) { y = of.tomorrow.Relu(x) }"""
    )
    portable = emit_portable(model, tmp_path)
    with pytest.raises(RefusedError, match="onnxruntime cannot load this graph"):
        emit_optimised(tmp_path, portable, requirements_here())


def test_the_refusal_names_the_module_and_line_of_the_node(tmp_path: Path) -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 21]>
        main (double[n] x) => (double[n] y) { y = Erf(x) }"""
    )
    (node,) = model.graph
    node.name = "node_Erf_7"
    node.metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'head', 'head.act', 'erf']"
    node.metadata_props["pkg.torch.onnx.stack_trace"] = 'File "model.py", line 12, in forward'
    portable = emit_portable(model, tmp_path)
    with pytest.raises(RefusedError, match="Could not find an implementation for Erf") as caught:
        emit_optimised(tmp_path, portable, requirements_here())
    assert caught.value.where == "head.act (model.py:12), Erf 'node_Erf_7'"
    assert str(tmp_path) not in str(caught.value)
