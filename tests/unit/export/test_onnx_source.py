"""What an ONNX file says of itself: inputs, dims, outputs, ranges; and the example that is drawn for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_files import ORACLE, assert_converts, constant, imported, info, save

from aotc.errors import InputError, RefusedError, UsageError
from aotc.ir.scopes import module_path

Node = helper.make_node
RNG = np.random.default_rng(0)
X = np.arange(2)
TABLE = constant("table", RNG.standard_normal((7, 5)))


def embedding(folder: Path) -> Path:
    nodes = [
        Node("Gather", ["table", "ids"], ["rows"], name="/embed/Gather"),
        Node("Cast", ["mask"], ["kept"], to=1, name="/pool/Cast"),
        Node("Unsqueeze", ["kept", "last"], ["kept3"], name="/pool/Unsqueeze"),
        Node("Mul", ["rows", "kept3"], ["y"], name="/pool/Mul"),
    ]
    inputs = [info("ids", ["batch", "seq"], "int64"), info("mask", ["batch", "seq"], "int64")]
    constants = [TABLE, constant("last", [-1], "int64")]
    return save(folder / "embed.onnx", nodes, inputs, [info("y", ["batch", "seq", 5])], constants)


def test_names_dims_and_the_range_of_an_index(tmp_path: Path) -> None:
    found = imported(embedding(tmp_path), profile={"seq": (1, 6, 9)})
    ids, mask = found.signature.inputs
    assert (ids.name, ids.dtype, ids.shape) == ("ids", "int64", ("batch", "seq"))
    assert ids.range is not None
    assert (ids.range.low, ids.range.high) == (
        -7,
        6,
    )  # ONNX Runtime reads -1 as the last row: so means the file
    assert mask.range is None
    assert [(spec.name, spec.shape) for spec in found.signature.outputs] == [("y", ("batch", "seq", 5))]
    assert found.example["ids"].shape == (2, 6)
    assert len(set(found.example["ids"].reshape(-1).tolist())) > 3
    assert set(found.example["mask"].reshape(-1).tolist()) == {1}
    flat = found.signature.flatten_call(X, mask=X + 1)
    assert {name: value.tolist() for name, value in flat.items()} == {"ids": [0, 1], "mask": [1, 2]}


def test_notes_say_what_was_drawn_and_what_is_free(tmp_path: Path) -> None:
    found = imported(embedding(tmp_path), profile={"seq": (1, 6, 9)})
    assert [note.split(":")[0] for note in found.notes] == ["no inputs were given", "'batch' has no profile"]
    given = {name: np.ones((2, 3), np.int64) for name in ("ids", "mask")}
    assert not any("drawn" in note for note in imported(embedding(tmp_path), given).notes)


def test_module_paths_come_from_node_names(tmp_path: Path) -> None:
    model = imported(embedding(tmp_path)).model
    assert {node.op_type: module_path(node) for node in model.graph} == {
        "Gather": "embed",
        "Cast": "pool",
        "Unsqueeze": "pool",
        "Mul": "pool",
    }


def relu(folder: Path, *shape: int | str | None, name: str = "x") -> Path:
    path = folder / "relu.onnx"
    return save(path, [Node("Relu", [name], ["y"])], [info(name, shape)], [info("y", [None] * len(shape))])


@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        (("p2o.DynamicDimension.0", 3), ("p2o_DynamicDimension_0", 3)),
        (("?", "?"), ("x_0", "x_1")),
        (("None", ""), ("x_0", "x_1")),
        ((None, -1), ("x_0", "x_1")),
        (("n", "n"), ("n", "n")),
        (("a.b", "a_b"), ("a_b_", "a_b")),
        (("past + 1", "7"), ("past___1", "dim_7")),
        (("Min", "lambda"), ("Min_", "lambda_")),
        (("x_1", None), ("x_1", "x_1_")),
    ],
)
def test_names_of_dims(
    shape: tuple[int | str | None, ...], dims: tuple[int | str, ...], tmp_path: Path
) -> None:
    path = relu(tmp_path, *[None if size == -1 else size for size in shape])
    if -1 in shape:
        model = onnx.load(path)
        model.graph.input[0].type.tensor_type.shape.dim[shape.index(-1)].dim_value = -1
        onnx.save(model, path)
    found = assert_converts(path, {"x": RNG.standard_normal((3, 3)).astype(np.float32)})
    assert found.signature.inputs[0].shape == dims


@pytest.mark.parametrize("name", ["serving_default_x:0", "input.1", "0", "class", "a b", "ä"])
def test_names_of_inputs_are_kept(name: str, tmp_path: Path) -> None:
    found = imported(relu(tmp_path, None, 3, name=name))
    assert [spec.name for spec in found.signature.inputs] == [name]
    assert list(found.signature.flatten_call(X)) == [name]
    assert list(found.signature.flatten_call(**{name: X})) == [name]


def test_an_axis_that_only_some_sizes_fit_is_drawn_so(tmp_path: Path) -> None:
    nodes = [Node("Reshape", ["x", "shape"], ["r"]), Node("MatMul", ["r", "w"], ["y"])]
    constants = [constant("shape", [-1, 224], "int64"), constant("w", RNG.standard_normal((224, 2)))]
    path = save(tmp_path / "m.onnx", nodes, [info("x", [1, "wide"])], [info("y", [None, 2])], constants)
    assert imported(path).example["x"].shape == (1, 224)


def test_a_file_that_refuses_every_drawn_input(tmp_path: Path) -> None:
    nodes = [Node("Reshape", ["x", "shape"], ["y"])]
    shape = [constant("shape", [5, 77], "int64")]
    path = save(tmp_path / "m.onnx", nodes, [info("x", ["n", "m"])], [info("y", [5, 77])], shape)
    with pytest.raises(UsageError, match=r"refuses the example inputs: .*Reshape") as caught:
        imported(path)
    assert "--inputs" in str(caught.value.hint)
    assert imported(path, {"x": np.ones((7, 55), np.float32)}).example["x"].shape == (7, 55)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "the input 'x' is missing"),
        ({"x": np.ones((2, 3), np.float32), "z": np.ones(1)}, "there is no input 'z'"),
        ({"x": np.ones((2, 3))}, "must be float32, not float64"),
        ({"x": np.ones((2, 4), np.float32)}, "axis 1 of input 'x' must be 3, not 4"),
    ],
)
def test_given_inputs_that_do_not_fit(inputs: dict[str, np.ndarray], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        imported(relu(tmp_path, "n", 3), inputs)


def test_a_profile_of_no_dim(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'batch', which no input has") as caught:
        imported(relu(tmp_path, "n", 3), profile={"batch": (1, 2, 3)})
    assert caught.value.hint == "dynamic dims of the inputs: n"


def test_inputs_and_outputs_that_are_no_tensors(tmp_path: Path) -> None:
    plain = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])
    sequence = helper.make_value_info("s", helper.make_sequence_type_proto(plain))
    optional = helper.make_value_info("o", helper.make_optional_type_proto(plain))
    length, has = info("y", [], "int64"), info("y", [], "bool")
    cases = [
        (sequence, Node("SequenceLength", ["s"], ["y"]), length, "the input 's' is a sequence"),
        (optional, Node("OptionalHasElement", ["o"], ["y"]), has, "the input 'o' is an optional"),
        (info("x", [2]), Node("SequenceConstruct", ["x"], ["s"]), sequence, "the output 's' is a sequence"),
    ]
    for value, node, output, said in cases:
        path = save(tmp_path / "m.onnx", [node], [value], [output])
        with pytest.raises(RefusedError, match=said):
            imported(path)


def test_dtypes_that_no_array_holds(tmp_path: Path) -> None:
    for dtype, said in ((onnx.TensorProto.STRING, "string"), (onnx.TensorProto.BFLOAT16, "bfloat16")):
        values = [helper.make_tensor_value_info(name, dtype, [2]) for name in ("x", "y")]
        path = save(tmp_path / "m.onnx", [Node("Identity", ["x"], ["y"])], values[:1], values[1:])
        with pytest.raises(RefusedError, match=f"the input 'x' is {said}"):
            imported(path)


def test_a_shape_that_the_file_gets_wrong_is_not_believed(tmp_path: Path) -> None:
    nodes = [Node("Transpose", ["x"], ["t"], perm=[1, 0]), Node("Softmax", ["t"], ["y"], axis=1)]
    path = save(tmp_path / "m.onnx", nodes, [info("x", ["n", 3])], [info("y", ["n", "n"])], opset=11)
    found = assert_converts(path, {"x": RNG.standard_normal((4, 3)).astype(np.float32)})
    assert found.signature.outputs[0].shape == (3, "n")


def test_an_operator_without_shape_inference(tmp_path: Path) -> None:
    nodes = [Node("Trilu", ["x"], ["t"]), Node("Inverse", ["t"], ["y"], domain="com.microsoft")]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [info("x", ["n", 3, 3])],
        [info("y", ["k", None, 3])],
        domains=[helper.make_opsetid("com.microsoft", 1)],
    )
    found = imported(path, {"x": np.stack([np.eye(3, dtype=np.float32)] * 4)})
    assert found.signature.outputs[0].dtype == "float32"
    assert found.signature.outputs[0].shape == ("y_0", "y_1", "y_2")
    np.testing.assert_allclose(ORACLE.run(found.model, found.example)["y"], found.example["x"])


def test_dims_that_the_file_requires_to_be_equal_are_one(tmp_path: Path) -> None:
    nodes = [
        Node("Add", ["a", "b"], ["sum"]),
        Node("Concat", ["a", "c"], ["both"], axis=0),
        Node("Transpose", ["both"], ["turned"], perm=[1, 0]),
        Node("MatMul", ["sum", "turned"], ["y"]),
    ]
    inputs = [info("a", [None, 3]), info("b", [2, None, 3]), info("c", [None, 3])]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", None)])
    given = {
        name: np.ones(shape, np.float32) for name, shape in {"a": (4, 3), "b": (2, 4, 3), "c": (4, 3)}.items()
    }
    found = imported(path, given, profile={"b_1": (2, 4, 6)})
    assert [spec.shape for spec in found.signature.inputs] == [("a_0", 3), (2, "a_0", 3), ("c_0", 3)]
    assert found.signature.outputs[0].shape == (2, "a_0", "y_2")
    assert {name: p.max for name, p in found.signature.profiles[0].items()} == {"a_0": 6}
    assert list(found.signature.bounds) == ["c_0"]
    assert found.notes[0] == "the dims 'a_0' and 'b_1' count as one: the file refuses other sizes"
    with pytest.raises(UsageError, match="'a_0' and 'b_1' are always equal"):
        imported(path, given, profile={"a_0": (1, 4, 5), "b_1": (2, 4, 6)})


def test_three_inputs_with_one_batch_and_one_length(tmp_path: Path) -> None:
    nodes = [Node("Concat", ["a", "b", "c"], ["y"], axis=2)]
    inputs = [info(name, [None, None, 3]) for name in "abc"]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", [None, None, 9])])
    for shape in ((4, 5, 3), (4, 4, 3)):
        found = imported(path, {name: np.ones(shape, np.float32) for name in "abc"})
        assert [spec.shape for spec in found.signature.inputs] == [("a_0", "a_1", 3)] * 3


def test_a_file_without_inputs(tmp_path: Path) -> None:
    weight = [constant("w", [1, -2])]
    path = save(tmp_path / "m.onnx", [Node("Relu", ["w"], ["y"])], [], [info("y", [2])], weight)
    with pytest.raises(RefusedError, match="the file has no inputs"):
        imported(path)


@pytest.mark.parametrize("opset", [25, 26])
def test_a_newer_opset_is_brought_back(opset: int, tmp_path: Path) -> None:
    path = relu(tmp_path, "n", 3)
    model = onnx.load(path)
    model.opset_import[0].version = opset
    onnx.save(model, path)
    assert_converts(path, {"x": RNG.standard_normal((3, 3)).astype(np.float32)})
