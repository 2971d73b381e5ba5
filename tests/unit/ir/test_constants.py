from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from aotc.ir.constants import SOURCE, constant, constant_of_node, digest, new_initializer, sample, sources
from aotc.ir.text import from_text

HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'


def test_only_initialisers_that_no_caller_can_set_are_constant() -> None:
    model = from_text(
        HEADER + "g (float[2] x, float[2] d = {1,2}) => (float[2] y) <float[2] w = {1,2}>"
        "{ k = Add (x, d) y = Add (k, w) }"
    )
    initializers = model.graph.initializers
    assert constant(initializers["w"]) is not None
    assert constant(initializers["d"]) is None
    assert constant(model.graph.inputs[0]) is None
    assert constant(None) is None
    model.graph.node(0).outputs[0].const_value = ir.tensor([1.0, 2.0])
    assert constant(model.graph.node(0).outputs[0]) is None


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("value_int = 3", np.int64(3)),
        ("value_ints = [3, 4]", np.array([3, 4])),
        ("value_float = 0.5", np.float32(0.5)),
        ("value_floats = [0.5]", np.array([0.5], np.float32)),
        ("value = float16[1] {15360}", np.array([1], np.float16)),
    ],
)
def test_constant_nodes(attribute: str, expected: np.ndarray) -> None:
    node = from_text(HEADER + f"g () => (y) {{ y = Constant <{attribute}> () }}").graph.node(0)
    tensor = constant_of_node(node)
    assert tensor is not None
    assert tensor.numpy().dtype == expected.dtype
    assert np.array_equal(tensor.numpy(), expected)
    assert tensor.numpy().shape == expected.shape


@pytest.mark.parametrize(
    ("attribute", "shape"), [('value_string = "a"', ()), ('value_strings = ["a", "b"]', (2,))]
)
def test_constant_nodes_of_strings(attribute: str, shape: tuple[int, ...]) -> None:
    node = from_text(HEADER + f"g () => (y) {{ y = Constant <{attribute}> () }}").graph.node(0)
    tensor = constant_of_node(node)
    assert isinstance(tensor, ir.StringTensor)
    assert tensor.shape == shape


def test_a_constant_without_a_value_is_none() -> None:
    assert constant_of_node(ir.Node("", "Constant", [])) is None


def _value(name: str, **metadata: str) -> ir.Value:
    return ir.Value(name=name, metadata_props={k.replace("__", "."): v for k, v in metadata.items()})


def test_sources_are_the_parameters_behind_a_value() -> None:
    folded = _value("val_1")
    folded.metadata_props["pkg.onnxscript.optimizer.folded_from"] = "['fc.weight', 'fc.bias']"
    literal, noted = _value("val_2", **{SOURCE: ""}), _value("val_3", **{SOURCE: "a,b"})
    assert sources([_value("p"), None, folded, literal, noted, _value("a")]) == [
        "p",
        "fc.weight",
        "fc.bias",
        "a",
        "b",
    ]


def test_a_new_initialiser_is_declared_as_what_it_holds() -> None:
    value = new_initializer("w", ir.Tensor(np.zeros((2, 0), np.float16)), ["p", "q"])
    assert (value.dtype, value.shape, value.metadata_props[SOURCE]) == (ir.DataType.FLOAT16, [2, 0], "p,q")


def test_the_note_of_the_source_survives_the_file_form() -> None:
    model = from_text(HEADER + "g (float[2] x) => (float[2] y) { y = Add (x, x) }")
    value = new_initializer("w", ir.Tensor(np.zeros(2, np.float32)), ["p", "q"])
    model.graph.initializers.add(value)
    model.graph.node(0).replace_input_with(1, value)
    again = ir.from_proto(ir.to_proto(model))
    assert sources([again.graph.initializers["w"]]) == ["p", "q"]


DIFFERENT = [
    np.array([0.0], np.float32),
    np.array([-0.0], np.float32),
    np.array([np.nan], np.float32),
    np.arange(1000, dtype=np.float32),
    np.where(np.arange(1000) == 999, 0, np.arange(1000)).astype(np.float32),
    np.array([1, 2], ml_dtypes.bfloat16),
    np.array([1, 2], ml_dtypes.int4),
    np.zeros((0,), np.float32),
    np.float32(1).reshape(()),
]


def test_digests_tell_contents_apart_and_do_not_depend_on_layout() -> None:
    digests = [digest(ir.Tensor(array)) for array in DIFFERENT]
    assert len(set(digests)) == len(digests)
    assert digests == [digest(ir.Tensor(array.copy())) for array in DIFFERENT]
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    assert (
        digest(ir.Tensor(square.T))
        == digest(ir.Tensor(np.ascontiguousarray(square.T)))
        != digest(ir.Tensor(square))
    )


def test_digests_of_strings_do_not_run_together() -> None:
    first, second = (ir.StringTensor(parts, shape=ir.Shape([2])) for parts in ([b"ab", b"c"], [b"a", b"bc"]))
    assert digest(first) != digest(second)
    assert sample(first) != sample(second)


def test_samples_are_equal_where_the_beginnings_are() -> None:
    assert sample(ir.Tensor(DIFFERENT[3])) == sample(ir.Tensor(DIFFERENT[4]))
    assert sample(ir.Tensor(DIFFERENT[0])) != sample(ir.Tensor(DIFFERENT[1]))
    assert sample(ir.Tensor(DIFFERENT[-1])) == sample(ir.Tensor(np.ones(1, np.float32)))
