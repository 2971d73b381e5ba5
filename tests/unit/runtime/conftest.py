"""Real bundles of a tiny model: embedding, matmul with external weights, and an addition."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from aotc.bundle import Contents, Description, EngineEntry, GoldenCase, Requirements, Staging, TensorEntry
from aotc.runtime import requirements_here
from aotc.signature import Argument, IndexRange, Profile, Signature, TensorSpec
from aotc.tree import Dict, Sequence, TensorLeaf

RNG = np.random.default_rng(0)
EMBED = RNG.standard_normal((10, 64), dtype=np.float32)
WEIGHT = RNG.standard_normal((64, 64), dtype=np.float32)
OFFSETS = {"embed": 0, "weight": 4096}  # 4096-aligned, as the builder writes them
BLOB = EMBED.tobytes().ljust(4096, b"\0") + WEIGHT.tobytes()


def external(name: str, array: np.ndarray) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights"), ("offset", OFFSETS[name]), ("length", array.nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def make_model() -> onnx.ModelProto:
    """Return y = embed[ids] @ weight + bias, sizes = shape of ids."""
    nodes = [
        helper.make_node("Gather", ["embed", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "weight"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
        helper.make_node("Shape", ["ids"], ["sizes"]),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"]),
        helper.make_tensor_value_info("bias", TensorProto.FLOAT, []),
    ]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "seq", 64]),
        helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]),
    ]
    graph = helper.make_graph(
        nodes, "tiny", inputs, outputs, [external("embed", EMBED), external("weight", WEIGHT)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def reference(ids: np.ndarray, bias: float) -> np.ndarray:
    return EMBED[ids] @ WEIGHT + np.float32(bias)


def make_signature(**changes: Any) -> Signature:
    """Return the signature of ``forward(batch: dict, *, bias) -> {"out": (y,), "sizes": sizes}``.

    Other ``inputs`` or ``outputs`` come with arguments or a result of their own, without profiles.
    """
    if "inputs" in changes:
        changes["arguments"] = tuple(
            Argument(name=spec.name, kind="keyword", tree=TensorLeaf(name=spec.name))
            for spec in changes["inputs"]
        )
        changes["profiles"] = ()
    if "outputs" in changes:
        entries = tuple((spec.name, TensorLeaf(name=spec.name)) for spec in changes["outputs"])
        changes["result"] = Dict(kind="dict", entries=entries)
    return Signature(
        arguments=(
            Argument(
                name="batch",
                kind="positional",
                tree=Dict(kind="dict", entries=(("ids", TensorLeaf(name="ids")),)),
            ),
            Argument(name="bias", kind="keyword", tree=TensorLeaf(name="bias")),
        ),
        inputs=(
            TensorSpec(
                name="ids",
                dtype="int64",
                shape=("batch", "seq"),
                range=IndexRange(low=0, high=9, origin="Gather in embed"),
            ),
            TensorSpec(name="bias", dtype="float32", shape=()),
        ),
        outputs=(
            TensorSpec(name="y", dtype="float32", shape=("batch", "seq", 64)),
            TensorSpec(name="sizes", dtype="int64", shape=(2,)),
        ),
        result=Dict(
            kind="record",
            type="Output",
            entries=(
                ("out", Sequence(kind="tuple", items=(TensorLeaf(name="y"),))),
                ("sizes", TensorLeaf(name="sizes")),
            ),
        ),
        profiles=({"batch": Profile(min=1, opt=1, max=4), "seq": Profile(min=1, opt=3, max=8)},),
    ).model_copy(update=changes)


def tensors() -> tuple[TensorEntry, ...]:
    return tuple(
        TensorEntry(
            name=name,
            dtype="float32",
            shape=array.shape,
            file="weights",
            offset=OFFSETS[name],
            length=array.nbytes,
        )
        for name, array in (("embed", EMBED), ("weight", WEIGHT))
    )


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def optimise(folder: Path) -> None:
    """Write ORT's own optimised form of ``model.onnx``; its tensors stay in ``weights``."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "model.ort-optimised.onnx")
    onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


Publish = Callable[..., Description]


@pytest.fixture
def publish() -> Publish:
    """Return a function that publishes the tiny model, with other parts where given.

    ``requires`` adds an ort-optimised engine for that machine; ``model`` replaces the graph.
    """

    def publish(
        destination: Path,
        *,
        model: onnx.ModelProto | bytes | None = None,
        requires: Requirements | None = None,
        portable: bool = True,
        **changes: Any,
    ) -> Description:
        ids, bias = np.array([[1, 2, 3]]), np.float32(0.5)
        with Staging(destination) as staging:
            graph = make_model() if model is None else model
            content = graph if isinstance(graph, bytes) else graph.SerializeToString()
            (staging.path / "model.onnx").write_bytes(content)
            (staging.path / "weights").write_bytes(BLOB)
            (staging.path / "golden").mkdir()
            (staging.path / "golden/0.inputs.npz").write_bytes(npz(ids=ids, bias=bias))
            (staging.path / "golden/0.outputs.npz").write_bytes(
                npz(y=reference(ids, 0.5), sizes=np.array(ids.shape))
            )
            files, engines = ["model.onnx", "weights", "golden/0.inputs.npz"], []
            if requires is not None:
                optimise(staging.path)
                files.append("model.ort-optimised.onnx")
                engines.append(
                    EngineEntry(file=files[-1], kind="ort-optimised", requires=requires, tensors=tensors())
                )
            if portable:
                engines.append(EngineEntry(file="model.onnx", kind="portable", tensors=tensors()))
            case = GoldenCase(
                label="example",
                sizes={"batch": 1, "seq": 3},
                inputs="golden/0.inputs.npz",
                outputs="golden/0.outputs.npz",
            )
            fields: dict[str, Any] = {
                "producer": {"aotc": "0.1.0"},
                "name": "tiny",
                "target": "ort-cpu",
                "level": "executed",
                "signature": make_signature(),
                "engines": tuple(engines),
                "golden": (case,),
                "files": staging.entries(*files),
                "beside": staging.entries("golden/0.outputs.npz"),
            }
            return staging.publish(Contents(**{**fields, **changes}))

    return publish


@pytest.fixture
def bundle(tmp_path: Path, publish: Publish) -> Path:
    """Return the folder of a published bundle with a portable engine."""
    publish(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def tiny() -> Any:
    """Return this module's helpers: tests cannot import a conftest."""
    return sys.modules[__name__]


@pytest.fixture
def here() -> Requirements:
    return requirements_here()
