"""Large weights are not copied: what need not be read is not read, and a transposed weight is a view."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from access import CountingTensor
from aotc_passes.optimise import PASSES, FoldConstants, ShareDuplicates

from aotc.ir.text import from_text, to_text
from aotc.ir.verify import verify
from aotc.oracle import Oracle
from aotc.rewrite import Context, run_passes

CONTEXT = Context(oracle=Oracle())
HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'


def _model(arrays: dict[str, np.ndarray]) -> tuple[ir.Model, dict[str, CountingTensor]]:
    """Make a model that adds up its weights."""
    declared = ", ".join(
        f'float[{",".join(map(str, a.shape))}] {n} = ["location": "x"]' for n, a in arrays.items()
    )
    text = f"g (float[1] x) => (y) <{declared}> {{ y = Sum (x, {', '.join(arrays)}) }}"
    model = from_text(HEADER + text)
    model.graph.outputs[0].type, model.graph.outputs[0].shape = (
        ir.TensorType(ir.DataType.FLOAT),
        ir.Shape([1]),
    )
    tensors = {name: CountingTensor(array, name) for name, array in arrays.items()}
    for name, tensor in tensors.items():
        model.graph.initializers[name].const_value = tensor
    return model, tensors


def test_weights_of_different_shapes_are_never_read() -> None:
    arrays = {f"w{n}": np.zeros((1000 + n,), np.float32) for n in range(5)}
    model, tensors = _model(arrays)
    run_passes(model, [cls() for cls in PASSES], CONTEXT)
    to_text(model)
    verify(model.clone(), after="cloning")
    assert {name: tensor.reads for name, tensor in tensors.items()} == dict.fromkeys(arrays, 0)


def test_weights_that_differ_at_their_beginning_are_only_sampled_and_equal_ones_shared() -> None:
    same = np.arange(1000, dtype=np.float32)
    last = np.where(same == 999, 0, same)
    model, tensors = _model({"a": same, "b": same + 1, "c": same.copy(), "d": last})
    result = ShareDuplicates().run(model, CONTEXT)
    assert result.changes == ("initialiser 'c': shared with 'a'",)
    assert model.graph.initializers["a"].metadata_props["aotc.source"] == "a,c"
    assert {name: tensor.reads for name, tensor in tensors.items()} == {"a": 2, "b": 1, "c": 2, "d": 2}


def test_a_large_transposed_weight_is_a_view_of_the_weight() -> None:
    text = HEADER + (
        'g (float[N,3] x) => (float[N,2] y) <float[2,3] "fc.weight" = {1,2,3,4,5,6}>'
        '{ w = Transpose ("fc.weight") y = MatMul (x, w) }'
    )
    model = from_text(text)
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    model.graph.initializers["fc.weight"].const_value = ir.Tensor(weight, name="fc.weight")
    FoldConstants(max_bytes=8).run(model, CONTEXT)
    value = model.graph.initializers["w"]
    assert value.const_value is not None
    assert np.shares_memory(value.const_value.numpy(), weight)
    assert value.metadata_props["aotc.source"] == "fc.weight"
    assert value.const_value.tobytes() == weight.T.tobytes()
    assert list(model.graph.initializers) == ["w"]


def test_nothing_larger_than_the_limit_is_computed_to_find_out() -> None:
    text = HEADER + (
        "g (float[1] x) => (float[1] y) <int64[2] s = {1000000, 1000000}>"
        "{ z = ConstantOfShape (s) m = ReduceMax <keepdims = 0> (z) y = Add (x, m) }"
    )
    result = FoldConstants().run(from_text(text), CONTEXT)
    reasons = [refusal.reason for refusal in result.refusals]
    assert reasons == ["'z' takes 4000000000000 bytes, more than max_bytes=1048576"]
