"""The saved reproduction of a wrong value: the part of the graph that makes it, and what goes in and out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from aotc.ir.prefix import part, reads_of
from aotc.parity.golden import write_arrays
from aotc.parity.inner_values import InnerValues
from aotc.parity.search import Difference

Array = np.ndarray[Any, Any]
MODEL, WEIGHTS, INPUTS, EXPECTED, SCRIPT = "part.onnx", "part.weights", "inputs.npz", "expected.npz", "run.py"
_SCRIPT = '''\
"""Runs part.onnx, which begins with right values, and compares what comes out with PyTorch's."""

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("part.onnx", providers=["CPUExecutionProvider"])
inputs, expected = np.load("inputs.npz"), np.load("expected.npz")
names = [output.name for output in session.get_outputs()]
for name, got in zip(names, session.run(names, {i.name: inputs[i.name] for i in session.get_inputs()})):
    right = expected[name]
    if got.shape != right.shape or got.dtype != right.dtype:
        print(name, got.dtype, got.shape, "instead of", right.dtype, right.shape)
    else:
        print(name, got.shape, "max abs", np.abs(got.astype(np.float64) - right).max(initial=0.0))
'''


def save_reproduction(
    found: Difference,
    model: ir.Model,
    weights: Mapping[str, memoryview],
    inner: InnerValues,
    feeds: Mapping[str, Array],
    folder: Path,
) -> None:
    """Write the part of ``model`` between the two cuts of ``found`` to ``folder``, with values on both sides.

    Args:
        found: What was found.
        model: The graph that was searched.
        weights: What its external tensors lie in, by location.
        inner: Gives the right values.
        feeds: The inputs of the whole graph.
        folder: Made if need be; its own files are replaced.
    """
    starts = reads_of(model, [found.value], found.before.values)
    cut = part(model, starts, [found.value])
    _load_weights(cut, weights)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).unlink(missing_ok=True)
    ir.save(cut, folder / MODEL, external_data=WEIGHTS)
    given = {str(value.name) for value in cut.graph.inputs}
    begin = inner.run(feeds, starts) if starts else {}
    write_arrays(folder / INPUTS, {name: begin[name] if name in begin else feeds[name] for name in given})
    write_arrays(folder / EXPECTED, dict(inner.run(feeds, [found.value])))
    (folder / SCRIPT).write_text(_SCRIPT, encoding="utf-8")


def _load_weights(model: ir.Model, weights: Mapping[str, memoryview]) -> None:
    """Let every external tensor hold its bytes, so that the part can be saved anywhere."""
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor) and str(tensor.location) in weights:
            start = tensor.offset or 0
            data = weights[str(tensor.location)][start : start + (tensor.length or tensor.nbytes)]
            array = np.frombuffer(data, tensor.dtype.numpy()).reshape(tensor.shape.numpy())
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=value.name)
