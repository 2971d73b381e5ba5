from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import aotc
from aotc.bundle import Checked, EngineEntry, open_bundle, write_checked
from aotc.errors import AotcError, CompatibilityError, IntegrityError, MissingError, UsageError
from aotc.runtime import load, loading
from aotc.signature import TensorSpec

Publish = Callable[..., Any]
IDS = np.array([[1, 2, 3]])


def test_load_is_at_the_top_of_the_package(bundle: Path) -> None:
    assert aotc.load is load


def test_loads_and_runs_the_golden_case(bundle: Path, tiny: Any) -> None:
    with load(bundle) as engine, open_bundle(bundle) as opened:
        case = engine.description.golden[0]
        feeds = np.load(bundle / case.inputs)
        outputs = engine.run_flat(dict(feeds))
        expected = np.load(bundle / case.outputs)
        assert engine.description == opened.description
    np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outputs["sizes"], expected["sizes"])


def test_plain_onnxruntime_loads_the_portable_engine(bundle: Path, tiny: Any) -> None:
    session = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    y, _ = session.run(None, {"ids": IDS, "bias": np.array(0.5, np.float32)})
    np.testing.assert_allclose(y, tiny.reference(IDS, 0.5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [0, -1, True])
def test_threads_below_one_are_refused(bundle: Path, threads: int) -> None:
    with pytest.raises(UsageError, match=f"threads must be 1 or more, not {threads}"):
        load(bundle, threads=threads)


def test_threads_reach_the_session(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    create = onnxruntime.InferenceSession

    def spy(graph: bytes, options: Any, **kwargs: Any) -> Any:
        seen.append(options.intra_op_num_threads)
        return create(graph, options, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", spy)
    load(bundle, threads=3)
    load(bundle)
    assert seen == [3, 0]


def test_another_target_is_refused(tmp_path: Path, publish: Publish) -> None:
    publish(tmp_path / "m", target="tensorrt")
    with pytest.raises(CompatibilityError, match="the bundle is for tensorrt; this runtime runs ort-cpu"):
        load(tmp_path / "m")


def test_without_onnxruntime(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise MissingError(f"the package '{name}' is not installed")

    monkeypatch.setattr(loading.optional, "require", missing)
    with pytest.raises(MissingError, match="the package 'onnxruntime' is not installed"):
        load(bundle)


def checked(digest: str, **changes: Any) -> Checked:
    return Checked(**{"digest": digest, "verdict": "pass", "level": "executed", **changes})


def test_an_engine_that_was_never_run_needs_a_check(tmp_path: Path, publish: Publish) -> None:
    digest = publish(tmp_path / "m", level="graph").digest
    load(tmp_path / "m", allow_unexecuted=True)
    refused = pytest.raises(
        CompatibilityError, match="the engine of this bundle was never run: only its graph"
    )
    with refused as caught:
        load(tmp_path / "m")
    assert str(caught.value.hint).startswith(f"aotc check {tmp_path / 'm'}, on a machine with the device")
    for wrong in (checked("0" * 64), checked(digest, verdict="fail"), checked(digest, level="graph")):
        write_checked(tmp_path / "m", wrong)
        with refused:
            load(tmp_path / "m")
    write_checked(tmp_path / "m", checked(digest))
    load(tmp_path / "m")
    (tmp_path / "current").symlink_to("m")
    load(tmp_path / "current")


def test_a_broken_check_result_is_not_taken_for_a_pass(tmp_path: Path, publish: Publish) -> None:
    publish(tmp_path / "m", level="graph")
    (tmp_path / "m.checked.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"m.checked.json is not a result of aotc check"):
        load(tmp_path / "m")


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if anything native would have been called."""

    def called(*args: Any, **kwargs: Any) -> None:
        pytest.fail("native code was called for a bundle that was not verified")

    for name in ("InferenceSession", "SessionOptions", "OrtValue"):
        monkeypatch.setattr(onnxruntime, name, called)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def relink(path: Path) -> None:
    path.rename(path.parent.parent / "moved")
    path.symlink_to(path.parent.parent / "moved")


TAMPERING: dict[str, tuple[Callable[[Path], object], str]] = {
    "engine": (lambda d: flip(d / "model.onnx"), "the file 'model.onnx' was changed"),
    "weights": (lambda d: flip(d / "weights"), "the file 'weights' was changed"),
    "golden inputs": (lambda d: flip(d / "golden/0.inputs.npz"), "'golden/0.inputs.npz' was changed"),
    "golden outputs": (lambda d: flip(d / "golden/0.outputs.npz"), "'golden/0.outputs.npz' was changed"),
    "description": (lambda d: flip(d / "bundle.json"), "bundle.json"),
    "truncated": (lambda d: os.truncate(d / "weights", 5), "the file 'weights' has 5 bytes"),
    "missing": (lambda d: (d / "weights").unlink(), "the file 'weights' is missing"),
    "extra": (lambda d: (d / "custom.so").touch(), "the file 'custom.so' is not part of the bundle"),
    "folder": (lambda d: (d / "x").mkdir(), "the folder 'x' is not part of the bundle"),
    "symlink": (lambda d: relink(d / "weights"), "'weights' is a symbolic link"),
    "hard link": (lambda d: os.link(d / "weights", d.parent / "w"), "'weights' is hard-linked"),
}


@pytest.mark.parametrize("case", TAMPERING)
def test_native_code_never_sees_a_tampered_bundle(bundle: Path, case: str, no_session: None) -> None:
    tamper, text = TAMPERING[case]
    tamper(bundle)
    with pytest.raises(IntegrityError, match=re.escape(text)):
        load(bundle)


def test_a_change_after_loading_does_not_reach_the_engine(bundle: Path, tiny: Any) -> None:
    engine = load(bundle)
    for name in ("weights", "model.onnx"):
        with (bundle / name).open("r+b") as file:
            file.write(bytes(len(tiny.BLOB)))
        os.truncate(bundle / name, 0)
    y = engine.run({"ids": IDS}, bias=np.float32(0)).out[0]
    np.testing.assert_allclose(y, tiny.reference(IDS, 0), rtol=1e-5, atol=1e-5)


def test_the_bundle_may_be_removed_after_loading(bundle: Path, tiny: Any) -> None:
    engine = load(bundle)
    for path in sorted(bundle.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    y = engine.run({"ids": IDS}, bias=np.float32(0)).out[0]
    np.testing.assert_allclose(y, tiny.reference(IDS, 0), rtol=1e-5, atol=1e-5)


def test_weights_in_the_working_directory_are_never_used(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, tiny: Any
) -> None:
    engine = EngineEntry(file="model.onnx", kind="portable")  # its description forgets the weights
    publish(tmp_path / "m", engines=(engine,))
    (tmp_path / "weights").write_bytes(bytes(len(tiny.BLOB)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompatibilityError, match=f"onnxruntime {onnxruntime.__version__} cannot load"):
        load(tmp_path / "m")
    monkeypatch.chdir(tmp_path / "m")
    with pytest.raises(CompatibilityError, match="cannot load this engine"):
        load(tmp_path / "m")


def test_external_weights_of_a_subgraph_are_refused_not_read_from_elsewhere(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch, tiny: Any
) -> None:
    # ONNX Runtime takes given memory for the main graph only, and opens files for the others.
    model = tiny.make_model()
    branches = {}
    for name in ("then_branch", "else_branch"):
        out = helper.make_tensor_value_info(f"{name}.out", TensorProto.FLOAT, [64, 64])
        inner = tiny.external("weight", tiny.WEIGHT)
        inner.name = f"{name}.weight"
        node = helper.make_node("Identity", [inner.name], [out.name])
        branches[name] = helper.make_graph([node], name, [], [out], [inner])
    model.graph.node[1].input[1] = "chosen"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "true"))
    model.graph.node.insert(0, helper.make_node("If", ["true"], ["chosen"], **branches))
    publish(tmp_path / "m", model=model)
    (tmp_path / "weights").write_bytes(bytes(len(tiny.BLOB)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompatibilityError, match=r"cannot load this engine: .*not regular file"):
        load(tmp_path / "m")


def test_an_engine_that_is_no_model(tmp_path: Path, publish: Publish) -> None:
    publish(tmp_path / "m", model=b"\x00 not a model \xff\xfe")
    with pytest.raises(CompatibilityError, match=r"cannot load this engine: .*protobuf") as caught:
        load(tmp_path / "m")
    assert not re.search(r"0x[0-9a-f]{6}", str(caught.value))


def test_an_operator_that_this_runtime_does_not_have(tmp_path: Path, publish: Publish, tiny: Any) -> None:
    model = tiny.make_model()
    model.graph.node[2].op_type = "AddOfTomorrow"
    publish(tmp_path / "m", model=model)
    with pytest.raises(CompatibilityError, match="AddOfTomorrow"):
        load(tmp_path / "m")


def test_a_runtime_text_that_is_not_utf8(tmp_path: Path, publish: Publish, tiny: Any) -> None:
    content = tiny.make_model()
    content.graph.node[2].op_type = "AddXX"
    broken = content.SerializeToString().replace(b"AddXX", b"Add\xff\xfe")
    publish(tmp_path / "m", model=broken)
    with pytest.raises(AotcError, match=r"cannot load this engine: .*"):
        load(tmp_path / "m")


def spec(name: str, dtype: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


IDS_SPEC, BIAS = spec("ids", "int64", "batch", "seq"), spec("bias", "float32")
Y, SIZES = spec("y", "float32", "batch", "seq", 64), spec("sizes", "int64", 2)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"inputs": (IDS_SPEC,)}, "the engine has the inputs ['ids', 'bias'], the signature ['ids']"),
        ({"outputs": (Y,)}, "the engine has the outputs ['y', 'sizes'], the signature ['y']"),
        ({"outputs": (Y, spec("z", "int64", 2))}, "the signature ['y', 'z']"),
        (
            {"inputs": (spec("ids", "int32", "batch", "seq"), BIAS)},
            "the engine's input 'ids' is int64, the signature says int32",
        ),
        (
            {"outputs": (spec("y", "float16", "batch", "seq", 64), SIZES)},
            "the engine's output 'y' is float32, the signature says float16",
        ),
        (
            {"inputs": (spec("ids", "int64", "batch"), BIAS)},
            "the engine's input 'ids' has 2 axes, the signature says 1",
        ),
    ],
)
def test_a_signature_of_another_engine_is_refused(
    tmp_path: Path, publish: Publish, tiny: Any, changes: dict[str, Any], text: str
) -> None:
    publish(tmp_path / "m", signature=tiny.make_signature(**changes))
    with pytest.raises(IntegrityError, match=re.escape(text)):
        load(tmp_path / "m")


def test_an_input_that_is_a_sequence_is_refused_by_its_type(
    tmp_path: Path, publish: Publish, tiny: Any
) -> None:
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    inputs = [
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["n"]),
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    assert isinstance(model, onnx.ModelProto)
    signature = tiny.make_signature(
        inputs=(spec("s", "float32", "n"), spec("i", "int64")), outputs=(spec("y", "float32", "n"),)
    )
    publish(tmp_path / "m", model=model, signature=signature)
    with pytest.raises(
        IntegrityError, match=re.escape("input 's' is seq(tensor(float)), the signature says")
    ):
        load(tmp_path / "m")
