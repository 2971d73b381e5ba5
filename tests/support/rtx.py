"""TensorRT-RTX in tests: graphs as text become a folder to compile; who needs the package says so."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

from aotc.backends.tensorrt_rtx import ENGINE
from aotc.bundle import Contents, DeviceRequirements, EngineEntry, Staging, open_bundle
from aotc.ir.text import from_text
from aotc.signature import Argument, Profile, Signature, TensorSpec
from aotc.tree import Sequence, TensorLeaf

needs_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None,
    reason="the package tensorrt_rtx is not installed (extra rtx); .ci/full installs it and runs these tests",
)
HEADER = '<ir_version: 10, opset_import: ["" : 24, "my" : 1]>\n'
GRAPH = EngineEntry(file="model.onnx", kind="portable")


def graph_of(text: str) -> ir.Model:
    """Return the graph ``text``; nodes are named after their first result."""
    model = from_text(HEADER + text)
    for node in model.graph.all_nodes():
        node.name = f"node_{node.outputs[0].name}"
    return model


def signature_of(model: ir.Model, profiles: Mapping[str, tuple[int, int, int]] | None = None) -> Signature:
    """Return the signature of a forward that takes the graph's inputs and returns its outputs."""
    given = [{name: Profile(min=a, opt=b, max=c) for name, (a, b, c) in profiles.items()}] if profiles else []
    return Signature(
        arguments=tuple(
            Argument(name=str(v.name), kind="positional", tree=TensorLeaf(name=str(v.name)))
            for v in model.graph.inputs
        ),
        inputs=tuple(map(_spec, model.graph.inputs)),
        outputs=tuple(map(_spec, model.graph.outputs)),
        result=Sequence(kind="tuple", items=tuple(TensorLeaf(name=str(v.name)) for v in model.graph.outputs)),
        profiles=tuple(given),
    )


def _spec(value: ir.Value) -> TensorSpec:
    assert value.dtype is not None
    assert value.shape is not None
    shape = tuple(d if isinstance(d, int) else str(d.value) for d in value.shape)
    return TensorSpec(name=str(value.name), dtype=value.dtype.numpy().name, shape=shape)


def payload_of(
    folder: Path,
    model: ir.Model,
    profiles: Mapping[str, tuple[int, int, int]] | None = None,
    architectures: tuple[str, ...] = ("sm_86",),
) -> dict[str, Any]:
    """Write ``model`` to ``folder`` and return what the compiler's child process is given."""
    from aotc.backends.tensorrt_rtx.profiles import profile_shapes

    ir.save(model, folder / GRAPH.file)
    signature = signature_of(model, profiles)
    return {
        "directory": str(folder),
        "graph": GRAPH.file,
        "signature": signature.model_dump(mode="json"),
        "architectures": architectures,
        "profiles": profile_shapes(signature),
    }


def as_rtx_bundle(bundle: Path, out: Path) -> None:
    """Publish the graph of an ort-cpu bundle again, as one for TensorRT-RTX whose engine is no engine.

    What is done with such a bundle where nothing can run its engine does not depend on what is in it.
    """
    with open_bundle(bundle) as opened, Staging(out) as staging:
        old = opened.description
        kept = {GRAPH.file, "weights", *(case.inputs for case in old.golden)} & old.files.keys()
        for name in (*kept, *old.beside):
            (staging.path / name).parent.mkdir(exist_ok=True)
            (staging.path / name).write_bytes(opened.buffer(name))
        (staging.path / ENGINE).write_bytes(b"no engine")
        requires = DeviceRequirements(tensorrt_rtx="1.7.1.116", architectures=("sm_86",))
        fields = {name: getattr(old, name) for name in Contents.model_fields}
        fields |= {
            "target": "tensorrt-rtx:sm_86",
            "level": "graph",
            "engines": (old.runnable[0], EngineEntry(file=ENGINE, kind="tensorrt-rtx", requires=requires)),
            "files": {**{name: old.files[name] for name in kept}, **staging.entries(ENGINE)},
        }
        staging.publish(Contents(**fields))
