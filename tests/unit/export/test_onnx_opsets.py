"""Old files: what the version converter makes of them computes what the untouched file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_files import assert_converts, constant, imported, info, save

from aotc.errors import RefusedError

Node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4, 4)).astype(np.float32)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    return constant(name, RNG.standard_normal(shape))


BN = [constant(name, RNG.uniform(0.5, 2, 3)) for name in ("scale", "shift", "mean", "var")]
OLD: dict[str, tuple[int, list[onnx.NodeProto], list[onnx.TensorProto]]] = {
    "batch norm 7": (
        7,
        [Node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["y"], epsilon=0.1)],
        BN,
    ),
    "batch norm 9": (
        9,
        [Node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["y"], epsilon=0.1)],
        BN,
    ),
    "upsample 7 nearest": (7, [Node("Upsample", ["x"], ["y"], scales=[1.0, 1, 2, 3])], []),
    "upsample 7 linear": (7, [Node("Upsample", ["x"], ["y"], mode="linear", scales=[1.0, 1, 2, 2])], []),
    "upsample 9 nearest": (9, [Node("Upsample", ["x", "s"], ["y"])], [constant("s", [1, 1, 2, 2])]),
    "upsample 9 linear": (
        9,
        [Node("Upsample", ["x", "s"], ["y"], mode="linear")],
        [constant("s", [1, 1, 2, 3])],
    ),
    "resize 10 nearest": (10, [Node("Resize", ["x", "s"], ["y"])], [constant("s", [1, 1, 1.5, 2])]),
    "resize 10 linear": (
        10,
        [Node("Resize", ["x", "s"], ["y"], mode="linear")],
        [constant("s", [1, 1, 1.5, 2])],
    ),
    "resize 11 linear": (
        11,
        [Node("Resize", ["x", "roi", "s"], ["y"], mode="linear")],
        [constant("roi", []), constant("s", [1, 1, 1.5, 2])],
    ),
    "softmax 11 coerces to two axes": (11, [Node("Softmax", ["x"], ["y"], axis=1)], []),
    "softmax 11 default axis": (11, [Node("Softmax", ["x"], ["y"])], []),
    "log softmax 11": (11, [Node("LogSoftmax", ["x"], ["y"], axis=2)], []),
    "hardmax 11, last axis": (11, [Node("Hardmax", ["x"], ["y"], axis=-1)], []),
    "dropout 7": (7, [Node("Dropout", ["x"], ["y"], ratio=0.9)], []),
    "dropout 11": (11, [Node("Dropout", ["x"], ["y"], ratio=0.9)], []),
    "clip 6": (9, [Node("Clip", ["x"], ["y"], min=-0.5, max=0.25)], []),
    "clip 6 one side": (9, [Node("Clip", ["x"], ["y"], max=0.25)], []),
    "squeeze 11": (
        11,
        [Node("Unsqueeze", ["x"], ["u"], axes=[0, 3]), Node("Squeeze", ["u"], ["y"], axes=[0])],
        [],
    ),
    "reduce sum 11": (11, [Node("ReduceSum", ["x"], ["y"], axes=[1, -1], keepdims=0)], []),
    "reduce mean 17": (17, [Node("ReduceMean", ["x"], ["y"], axes=[2], keepdims=1)], []),
    "reduce l2 13": (13, [Node("ReduceL2", ["x"], ["y"], axes=[1])], []),
    "slice 1": (9, [Node("Slice", ["x"], ["y"], axes=[1, 3], starts=[1, -3], ends=[3, 9999])], []),
    "pad 2 reflect": (9, [Node("Pad", ["x"], ["y"], mode="reflect", pads=[0, 0, 1, 1, 0, 0, 1, 2])], []),
    "pad 2 value": (9, [Node("Pad", ["x"], ["y"], value=3.0, pads=[0, 0, 1, 0, 0, 0, 0, 2])], []),
    "topk 9": (9, [Node("TopK", ["x"], ["y", "i"], k=2, axis=-1)], []),
    "split 11": (11, [Node("Split", ["x"], ["y", "z"], axis=1, split=[1, 2])], []),
    "cast 9": (9, [Node("Cast", ["x"], ["i"], to=6), Node("Cast", ["i"], ["y"], to=1)], []),
    "max pool 8": (8, [Node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])], []),
    "average pool 7": (
        7,
        [Node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=0)],
        [],
    ),
    "gemm 7": (
        7,
        [Node("Flatten", ["x"], ["f"], axis=2), Node("Gemm", ["f", "w", "b"], ["y"], transB=1, alpha=0.5)],
        [weights("w", 5, 16), weights("b", 1, 5)],
    ),
    "prelu 7": (7, [Node("PRelu", ["x", "a"], ["y"])], [constant("a", RNG.uniform(0, 1, (3, 1, 1)))]),
    "equal 7, where 9": (
        9,
        [
            Node("Greater", ["x", "zero"], ["g"]),
            Node("Where", ["g", "x", "zero"], ["y"]),
        ],
        [constant("zero", 0.0)],
    ),
    "arg max 11": (11, [Node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)], []),
    "cumsum 11": (11, [Node("CumSum", ["x", "axis"], ["y"])], [constant("axis", 2, "int64")]),
    "gelu 20": (20, [Node("Gelu", ["x"], ["y"])], []),
    "group norm 21": (
        21,
        [Node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=3)],
        [weights("g", 3), weights("b", 3)],
    ),
    "lstm 7": (
        7,
        [
            Node("Reshape", ["x", "shape"], ["steps"]),
            Node("LSTM", ["steps", "w", "r"], ["y"], hidden_size=4, direction="bidirectional"),
        ],
        [constant("shape", [2, 3, 16], "int64"), weights("w", 2, 16, 16), weights("r", 2, 16, 4)],
    ),
    "quantise 10": (
        10,
        [Node("QuantizeLinear", ["x", "s", "z"], ["q"]), Node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        [constant("s", 0.02), constant("z", 128, "uint8")],
    ),
    "large weights": (
        9,
        [Node("MatMul", ["x", "w"], ["m"]), Node("Clip", ["m"], ["y"], max=1.0)],
        [weights("w", 4, 900)],
    ),
}


def outputs_of(nodes: list[onnx.NodeProto]) -> list[onnx.ValueInfoProto]:
    types = {"i": "int64"} if nodes[-1].op_type == "TopK" else {}
    main = "int64" if nodes[-1].op_type == "ArgMax" else "float32"
    return [info(name, None, types.get(name, main)) for name in nodes[-1].output]


@pytest.mark.parametrize("name", OLD)
def test_old_operators(name: str, tmp_path: Path) -> None:
    opset, nodes, constants = OLD[name]
    shape = ["batch", *X.shape[1:]]
    path = save(tmp_path / "old.onnx", nodes, [info("x", shape)], outputs_of(nodes), constants, opset=opset)
    assert_converts(path, {"x": X})


def branch(name: str, op: str, **attributes: Any) -> onnx.GraphProto:
    """A branch that reads ``x`` and ``w`` of the graph around it."""
    nodes = [Node("Add", ["x", "w"], [f"{name}_sum"]), Node(op, [f"{name}_sum"], [name], **attributes)]
    return helper.make_graph(nodes, name, [], [info(name, None)])


def control_flow(kind: str) -> list[onnx.NodeProto]:
    if kind == "if":
        then, other = (
            branch("a", "ReduceSum", axes=[2], keepdims=0),
            branch("b", "ReduceMean", axes=[3], keepdims=0),
        )
        test = [Node("ReduceMax", ["x"], ["m"], keepdims=0), Node("Greater", ["m", "zero"], ["c"])]
        return [*test, Node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    if kind == "loop":
        body = [
            Node("Squeeze", ["v"], ["s"], axes=[0]),
            Node("Unsqueeze", ["s"], ["u"], axes=[0]),
            Node("Add", ["u", "w"], ["v_out"]),
            Node("Identity", ["go"], ["go_out"]),
        ]
        graph = helper.make_graph(
            body,
            "body",
            [info("i", [], "int64"), info("go", [], "bool"), info("v", None)],
            [info("go_out", [], "bool"), info("v_out", None)],
        )
        return [Node("Unsqueeze", ["x"], ["x1"], axes=[0]), Node("Loop", ["n", "", "x1"], ["y"], body=graph)]
    body = [
        Node("Add", ["acc", "step"], ["sum"]),
        Node("Mul", ["sum", "w"], ["acc_out"]),
        Node("Elu", ["sum"], ["o"]),
    ]
    graph = helper.make_graph(
        body, "body", [info("acc", None), info("step", None)], [info("acc_out", None), info("o", None)]
    )
    return [
        Node("ReduceSum", ["x"], ["start"], axes=[0], keepdims=0),
        Node("Scan", ["start", "x"], ["end", "y"], body=graph, num_scan_inputs=1),
    ]


@pytest.mark.parametrize("kind", ["if", "loop", "scan"])
@pytest.mark.parametrize("opset", [9, 11, 12])
def test_subgraphs_that_read_the_graph_around_them(kind: str, opset: int, tmp_path: Path) -> None:
    if kind == "loop" and opset == 9:
        opset = 10
    constants = [constant("w", 0.5), constant("zero", 0.0), constant("n", 3, "int64")]
    nodes = control_flow(kind)
    path = save(
        tmp_path / "m.onnx", nodes, [info("x", [2, 3, 4, 4])], [info("y", None)], constants, opset=opset
    )
    assert_converts(path, {"x": X})
    assert_converts(path, {"x": -np.abs(X)})


def test_equal_names_in_two_branches_stay_apart(tmp_path: Path) -> None:
    def side(value: float) -> onnx.GraphProto:
        inner = constant("c", np.full(4, value))
        return helper.make_graph(
            [Node("Mul", ["x", "c"], ["out"])], f"side{value}", [], [info("out", None)], [inner]
        )

    nodes = [
        Node("ReduceMax", ["x"], ["m"], keepdims=0),
        Node("Greater", ["m", "zero"], ["g"]),
        Node("If", ["g"], ["y"], then_branch=side(2.0), else_branch=side(-5.0)),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, [info("x", [2, 4])], [info("y", None)], [constant("zero", 0.0)], opset=12
    )
    for sign in (1, -1):
        assert_converts(path, {"x": sign * np.abs(X[0, 0, :2])})


def test_functions_of_the_file_are_inlined(tmp_path: Path) -> None:
    twice = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [Node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    four = helper.make_function(
        "mine",
        "Four",
        ["a"],
        ["b"],
        [Node("Twice", ["a"], ["t"], domain="mine"), Node("Twice", ["t"], ["b"], domain="mine")],
        [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)],
    )
    nodes = [Node("Four", ["x"], ["f"], domain="mine"), Node("MatMul", ["f", "w"], ["y"])]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [info("x", ["n", 4])],
        [info("y", ["n", 900])],
        [weights("w", 4, 900)],
        functions=[twice, four],
        domains=[helper.make_opsetid("mine", 1)],
    )
    found = assert_converts(path, {"x": X[0, 0]}, rtol=1e-5)
    assert {node.op_type for node in found.model.graph} == {"Add", "MatMul"}


def test_operators_of_other_domains_are_kept(tmp_path: Path) -> None:
    nodes = [
        Node("Squeeze", ["x"], ["s"], axes=[0]),
        Node("FusedMatMul", ["s", "w"], ["f"], domain="com.microsoft", alpha=0.5),
        Node("ReduceSum", ["f"], ["y"], axes=[0], keepdims=1),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [info("x", [1, 4, 4])],
        [info("y", [1, 4])],
        [weights("w", 4, 900)],
        opset=11,
        domains=[helper.make_opsetid("com.microsoft", 1)],
    )
    found = assert_converts(path, {"x": X[:1, 0]}, rtol=1e-5)
    assert [node.domain for node in found.model.graph] == ["", "com.microsoft", ""]


def test_initialisers_that_are_also_inputs_are_constants(tmp_path: Path) -> None:
    inputs = [info("x", ["n", 4]), info("w", [4, 900]), info("b", [900])]
    nodes = [Node("MatMul", ["x", "w"], ["m"]), Node("Add", ["m", "b"], ["y"])]
    constants = [weights("w", 4, 900), weights("b", 900)]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", ["n", 900])], constants, opset=8, ir_version=3)
    found = assert_converts(path, {"x": X[0, 0]}, rtol=1e-5)
    assert [spec.name for spec in found.signature.inputs] == ["x"]


@pytest.mark.parametrize("opset", [7, 9, 12, 13, 17, 18, 20, 21, 23, 24])
def test_outputs_that_are_inputs_or_constants_survive(opset: int, tmp_path: Path) -> None:
    inner = helper.make_graph([Node("Identity", ["r"], ["t"])], "then", [], [info("t", None)])
    other = helper.make_graph([Node("Neg", ["r"], ["e"])], "else", [], [info("e", None)])
    nodes = [
        Node("Relu", ["x"], ["r"]),
        Node("If", ["c"], ["y"], then_branch=inner, else_branch=other),
        Node("Constant", [], ["k"], value=constant("", [1.0, 2.0])),
    ]
    outputs = [info(name, None) for name in ("y", "r", "x", "w", "k")]
    inputs = [info("x", ["n", 4]), info("c", [], "bool")]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, [weights("w", 2000)], opset=opset)
    found = assert_converts(path, {"x": X[0, 0], "c": np.array(True)})
    assert [spec.name for spec in found.signature.outputs] == ["y", "r", "output.x", "w", "k"]


def test_weights_stay_in_their_file(tmp_path: Path) -> None:
    """Not even the large weights of a file that is converted are read before they are written."""
    path = tmp_path / "m.onnx"
    save(
        path,
        [Node("MatMul", ["x", "w"], ["m"]), Node("Clip", ["m"], ["y"], max=1.0)],
        [info("x", ["n", 4])],
        [info("y", None)],
        [weights("w", 4, 900)],
        opset=9,
    )
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, location="w.data", size_threshold=0)
    found = assert_converts(path, {"x": X[0, 0]}, rtol=1e-5)
    weight = found.model.graph.initializers["w"].const_value
    assert type(weight).__name__ == "ExternalTensor"


COPY = helper.make_graph([Node("Identity", ["i"], ["o"])], "copy", [info("i", [4])], [info("o", [4])])
SCAN_8 = Node("Scan", ["lengths", "r"], ["y"], name="the_scan", num_scan_inputs=1, body=COPY)


@pytest.mark.parametrize(
    ("nodes", "opset", "said"),
    [
        (
            [Node("Relu", ["x"], ["r"], name="first"), SCAN_8],
            8,
            "Scan 'the_scan' cannot be converted from opset 8 to opset 24",
        ),
        ([Node("Hardmax", ["x"], ["y"], name="h")], 11, "Hardmax 'h' takes all axes from 1 on at opset 11"),
    ],
)
def test_what_cannot_be_converted_is_named(
    nodes: list[onnx.NodeProto], opset: int, said: str, tmp_path: Path
) -> None:
    lengths = [constant("lengths", [3, 3], "int64")]
    path = save(tmp_path / "m.onnx", nodes, [info("x", [2, 3, 4])], [info("y", None)], lengths, opset=opset)
    with pytest.raises(RefusedError, match=said) as caught:
        imported(path, {"x": X[:, :, 0]})
    assert caught.value.name == "onnx-opset"
    assert "/project/" not in caught.value.message


UNARY = ("Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Softplus", "Elu", "HardSigmoid", "Softsign")
ATTRIBUTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Softmax", {"axis": 1}),
    ("Softmax", {"axis": 2}),
    ("LogSoftmax", {"axis": 1}),
    ("Clip", {"min": -1.0, "max": 1.0}),
    ("Dropout", {"ratio": 0.25}),
    ("ReduceSum", {"axes": [2], "keepdims": 1}),
    ("ReduceMax", {"axes": [1], "keepdims": 1}),
    ("Pad", {"pads": [0, 0, 1, 0, 1, 0], "value": 0.5}),
    ("Slice", {"axes": [1], "starts": [0], "ends": [2]}),
    ("LRN", {"size": 3}),
)


@st.composite
def chains(draw: Any) -> tuple[int, list[onnx.NodeProto]]:
    """A chain of operators in the form that opsets 7 to 9 had, with a value that skips ahead."""
    nodes: list[onnx.NodeProto] = []
    last = "x"
    for index in range(draw(st.integers(1, 6))):
        name = f"v{index}"
        kind = draw(st.sampled_from(("unary", "attributed", "binary", "layout")))
        if kind == "unary":
            nodes.append(Node(draw(st.sampled_from(UNARY)), [last], [name]))
        elif kind == "attributed":
            op, attributes = draw(st.sampled_from(ATTRIBUTED))
            if op == "LRN":
                nodes += [
                    Node("Unsqueeze", [last], [f"{name}u"], axes=[3]),
                    Node("LRN", [f"{name}u"], [f"{name}l"], **attributes),
                    Node("Squeeze", [f"{name}l"], [name], axes=[3]),
                ]
            else:
                nodes.append(Node(op, [last], [name], **attributes))
        elif kind == "binary":
            nodes.append(Node(draw(st.sampled_from(("Add", "Mul", "Div", "Sub"))), [last, "w"], [name]))
        else:
            nodes.append(Node("Transpose", [last], [name], perm=[0, 2, 1]))
        last = name
    nodes.append(Node("Identity", [last], ["y"]))
    return draw(st.integers(7, 9)), nodes


@given(chains())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_chain_of_old_operators(tmp_path: Path, chain: tuple[int, list[onnx.NodeProto]]) -> None:
    opset, nodes = chain
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [info("x", ["n", 4, 4])],
        [info("y", None)],
        [constant("w", 0.75)],
        opset=opset,
    )
    assert_converts(path, {"x": X[0]}, rtol=2e-6)


@pytest.mark.parametrize(("output", "inner"), [([3], [5, 5]), ([4], None), ([1, 1, 1], None)])
def test_shapes_that_the_file_gets_wrong_do_not_stop_the_conversion(
    output: list[int], inner: list[int] | None, tmp_path: Path
) -> None:
    nodes = [Node("ReduceSum", ["x"], ["s"], axes=[0], keepdims=0), Node("Relu", ["s"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [info("x", [2, 3])], [info("y", output)], opset=9)
    if inner is not None:
        model = onnx.load(path)
        model.graph.value_info.append(info("s", inner))
        onnx.save(model, path)
    found = assert_converts(path, {"x": X[0, 0, :2, :3]})
    assert found.signature.outputs[0].shape == (3,)
