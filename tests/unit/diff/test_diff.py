"""Two bundles side by side: every section notices what belongs to it, and nothing is missed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from aotc import optional
from aotc.backends.ort_cpu.emit import emit_portable
from aotc.bundle import Contents, Description, PartEntry, PartsContents, Staging, open_any
from aotc.bundle.entries import PassEntry, Refusal
from aotc.diff import BundleDiff, PartsDiff, diff
from aotc.diff.weights import Weight
from aotc.errors import IntegrityError, MissingError, UsageError
from aotc.ir.scopes import SCOPES
from aotc.ir.text import from_text
from aotc.parity.metrics import OutputFigures
from aotc.parity.verdict import CaseVerdict, EngineVerdict, Verdict
from aotc.signature import Argument, IndexRange, Profile, Signature, TensorSpec
from aotc.tree import TensorLeaf

BODY = "h = MatMul (x, w) t = Relu (h) u = Mul (t, s) y = Add (u, b)"
LARGE = np.random.default_rng(0).standard_normal((64, 64), np.float32)
WEIGHTS = {"w": LARGE, "b": np.ones(64, np.float32), "s": np.full((1,), 2, np.float32)}
SIGNATURE = Signature(
    arguments=(Argument(name="x", kind="positional", tree=TensorLeaf(name="x")),),
    inputs=(TensorSpec(name="x", dtype="float32", shape=("n", 64)),),
    outputs=(TensorSpec(name="y", dtype="float32", shape=("n", 64)),),
    result=TensorLeaf(name="y"),
    profiles=({"n": Profile(min=1, opt=2, max=8)},),
)


def graph(body: str, weights: Mapping[str, np.ndarray]) -> ir.Model:
    header = '<ir_version: 10, opset_import: ["" : 24]>'
    model = from_text(f"{header}\ng (float[N, 64] x) => (float[N, 64] y) {{ {body} }}")
    values = {v.name: v for node in model.graph for v in node.inputs if v is not None}
    for name, array in weights.items():
        values[name].const_value = ir.Tensor(array, name=name)
        values[name].dtype = values[name].const_value.dtype
        model.graph.initializers.add(values[name])
    for node in model.graph:
        node.metadata_props[SCOPES] = f"['', '{'fc' if node.op_type == 'MatMul' else 'act'}', 'op']"
    return model


def publish(
    folder: Path,
    body: str = BODY,
    weights: Mapping[str, np.ndarray] = WEIGHTS,
    *,
    files: Mapping[str, bytes] | None = None,
    verdict: Verdict | None = None,
    **changes: Any,
) -> Description:
    with Staging(folder) as staging:
        engine = emit_portable(graph(body, weights), staging.path)
        listed = {engine.file, *(tensor.file for tensor in engine.tensors), *(files or {})}
        for name, content in (files or {}).items():
            (staging.path / name).parent.mkdir(exist_ok=True)
            (staging.path / name).write_bytes(content)
        if verdict is not None:
            (staging.path / "parity.json").write_text(verdict.model_dump_json())
        fields: dict[str, Any] = {
            "producer": {"torch": "2.13.0"},
            "name": "net",
            "target": "ort-cpu",
            "level": "executed",
            "signature": SIGNATURE,
            "engines": (engine,),
            "files": staging.entries(*sorted(listed)),
            "beside": staging.entries(*(["parity.json"] if verdict is not None else [])),
        }
        return staging.publish(Contents(**{**fields, **changes}))


def compare(folder: Path, *args: Any, **changes: Any) -> BundleDiff:
    """Return how a bundle with other contents differs from the usual one."""
    publish(folder / "a")
    publish(folder / "b", *args, **changes)
    found = diff(folder / "a", folder / "b")
    assert isinstance(found, BundleDiff)
    return found


def figures(max_abs: float) -> Verdict:
    output = OutputFigures(name="y", passed=True, max_abs=max_abs, atol=1e-6, rtol=0.0, tolerance="derived")
    case = CaseVerdict(label="example", sizes={"n": 2}, outcome="equal", outputs=(output,))
    return Verdict(engines=(EngineVerdict(engine="model.onnx", cases=(case,)),), environment={})


def test_equal_bundles(tmp_path: Path) -> None:
    found = compare(tmp_path)
    assert found == BundleDiff(a=found.a, b=found.a)
    assert found.changed == ()


def test_other_values_are_another_weight_and_nothing_else(tmp_path: Path) -> None:
    changed = LARGE.copy()
    changed[63, 63] += 1e-6
    found = compare(tmp_path, BODY, {**WEIGHTS, "w": changed})
    assert found.changed == ("weights",)
    assert {w.name: w.status for w in found.weights} == {"w": "changed", "b": "equal", "s": "equal"}
    assert [(file.file, file.a == file.b) for file in found.files] == [("weights", True)]
    assert (found.weights[0].a, found.weights[0].b) == ("float32 [64, 64]",) * 2


def test_weights_inside_the_graph_file(tmp_path: Path) -> None:
    found = compare(tmp_path, BODY, {**WEIGHTS, "s": np.full((1,), 3, np.float32)})
    assert found.changed == ("weights",)
    assert {w.name: w.status for w in found.weights} == {"w": "equal", "b": "equal", "s": "changed"}


def test_another_dtype_is_requantised(tmp_path: Path) -> None:
    found = compare(tmp_path, BODY, {**WEIGHTS, "w": LARGE.astype(np.float16)})
    assert {w.name: w.status for w in found.weights}["w"] == "requantised"
    assert found.changed == ("weights", "precision", "size")
    assert {(d.what, d.a, d.b) for d in found.precision} == {
        ("weights in float32", "16644 bytes", "260 bytes"),
        ("weights in float16", None, "8192 bytes"),
        ("inputs of MatMul", "float", "float, float16"),
    }


def test_another_shape_weights_that_come_and_go(tmp_path: Path) -> None:
    body = "h = MatMul (x, w) t = Relu (h) u = Mul (t, scale) y = Add (u, b)"
    weights = {"w": LARGE.reshape(64, 64), "b": np.ones((1, 64), np.float32), "scale": WEIGHTS["s"]}
    found = compare(tmp_path, body, weights)
    assert {w.name: w.status for w in found.weights} == {
        "w": "equal",
        "b": "changed",
        "s": "removed",
        "scale": "added",
    }


def test_operators_are_told_by_module(tmp_path: Path) -> None:
    found = compare(tmp_path, BODY.replace("t = Relu (h)", "r = Tanh (h) t = Tanh (r)"))
    counts = [(o.module, o.operator, o.a, o.b) for o in found.ops]
    assert counts == [("act", "Relu", 1, 0), ("act", "Tanh", 0, 2)]
    assert found.rewired == ()
    assert found.changed == ("ops", "size")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("u = Mul (t, s)", "u = Mul (s, t)"),
        ("t = Relu (h)", "t = Relu (x)"),
        ("t = Softmax <axis = 0> (h)", "t = Softmax <axis = 1> (h)"),
        ("t = Relu (h) u = Mul (t, s)", "q = Mul (h, s) u = Relu (q)"),
    ],
)
def test_equal_counts_of_another_graph_are_noticed(tmp_path: Path, before: str, after: str) -> None:
    base = BODY if before in BODY else BODY.replace("t = Relu (h)", before)
    publish(tmp_path / "a", base)
    publish(tmp_path / "b", base.replace(before, after))
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.ops == ()
    assert found.rewired == ("act",)
    assert "ops" in found.changed


def test_names_of_computed_values_mean_nothing(tmp_path: Path) -> None:
    found = compare(tmp_path, BODY.replace("h", "hidden"))
    assert "ops" not in found.changed
    assert [file.file for file in found.files] == ["model.onnx"]


def test_the_signature(tmp_path: Path) -> None:
    ids = TensorSpec(name="x", dtype="int64", shape=("n", "k"), range=IndexRange(low=0, high=9, origin="a"))
    sizes = {"profiles": ({"n": Profile(min=1, opt=2, max=9)},), "conditions": ("n < 7",)}
    wide = SIGNATURE.model_copy(update={"inputs": (ids,), **sizes})
    found = compare(tmp_path, signature=wide)
    assert found.changed == ("signature", "verdict")
    assert [(d.what, d.a, d.b) for d in found.signature] == [
        ("input x", "float32 [n, 64]", "int64 [n, k], 0 to 9"),
        ("profile 0, n", "1 to 8 (opt 2)", "1 to 9 (opt 2)"),
        ("condition n < 7", None, "must hold"),
    ]
    assert [d.what for d in found.verdict] == ["verified sizes of k"]


def test_decisions_and_what_built_it(tmp_path: Path) -> None:
    refusal = Refusal(reason="shared", where="fc")
    passes = tuple(PassEntry(name="fold", changes=("c",), refusals=(refusal,)) for _ in range(2))
    found = compare(
        tmp_path, passes=passes, options={"seed": 1}, decisions={"kernel": "x"}, producer={"torch": "2.14"}
    )
    assert found.changed == ("decisions", "producer")
    assert [(d.what, d.b) for d in found.decisions] == [
        ("option seed", "1"),
        ("decision kernel", '"x"'),
        ("pass fold", "1 changes, 1 refusals"),
        ("pass fold, refused at fc", "shared"),
        ("pass fold, run 2", "1 changes, 1 refusals"),
        ("pass fold, run 2, refused at fc", "shared"),
    ]
    assert [(d.what, d.a, d.b) for d in found.producer] == [("torch", "2.13.0", "2.14")]


def test_the_verdict(tmp_path: Path) -> None:
    publish(tmp_path / "a", verdict=figures(1e-8))
    publish(tmp_path / "b", verdict=figures(2e-8), options={"seed": 1}, level="graph")
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.changed == ("decisions", "verdict")
    assert [(d.what, d.a, d.b) for d in found.verdict] == [
        ("level", "executed", "graph"),
        (
            "output y",
            "max abs 1.00e-08, bound 1.00e-06 (derived), ratio 0.00, 1 cases",
            "max abs 2.00e-08, bound 1.00e-06 (derived), ratio 0.00, 1 cases",
        ),
    ]


def test_an_asset_is_a_file_that_differs(tmp_path: Path) -> None:
    publish(tmp_path / "a", files={"assets/labels.txt": b"one"})
    publish(tmp_path / "b", files={"assets/labels.txt": b"two"})
    found = diff(tmp_path / "a", tmp_path / "b")
    assert [(file.file, file.a, file.b) for file in found.files] == [("assets/labels.txt", 3, 3)]
    assert (found.changed, found.notes) == ((), ())


def test_what_no_section_shows_is_said(tmp_path: Path) -> None:
    spec = SIGNATURE.inputs[0]
    ids = [
        spec.model_copy(update={"dtype": "int64", "range": IndexRange(low=0, high=9, origin=origin)})
        for origin in ("emb (a.py:3)", "emb (a.py:4)")
    ]
    for name, each in zip("ab", ids, strict=True):
        publish(tmp_path / name, signature=SIGNATURE.model_copy(update={"inputs": (each,)}))
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.changed == ()
    assert found.notes == ("bundle.json differs in something that no section shows",)


def test_without_onnx_what_is_known_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def require(name: str) -> Any:
        raise MissingError(f"the package '{name}' is not installed")

    monkeypatch.setattr(optional, "require", require)
    changed = {**WEIGHTS, "w": LARGE + 1}
    found = compare(tmp_path, BODY, changed)
    assert (found.changed, found.not_compared) == (("weights",), ()), "the graph files are equal"
    publish(tmp_path / "b", BODY.replace("Relu", "Tanh"), WEIGHTS)
    found = diff(tmp_path / "a", tmp_path / "b")
    assert (found.changed, found.not_compared) == ((), ("ops", "weights", "precision"))
    assert "onnx is not installed" in found.notes[0]


def test_weights_are_not_held_in_memory(tmp_path: Path) -> None:
    publish(tmp_path / "a")
    with open_any(tmp_path / "a", lambda name: name.endswith(".onnx")) as opened:
        assert len(opened.buffer("model.onnx")) > 0
        with pytest.raises(UsageError, match="no such file"):
            opened.buffer("weights")


def test_files_that_are_not_kept_are_verified_all_the_same(tmp_path: Path) -> None:
    publish(tmp_path / "a")
    content = bytearray((tmp_path / "a/weights").read_bytes())
    content[0] ^= 1
    (tmp_path / "a/weights").chmod(0o644)
    (tmp_path / "a/weights").write_bytes(content)
    with pytest.raises(IntegrityError, match="was changed"):
        diff(tmp_path / "a", tmp_path / "a")


@pytest.mark.parametrize("where", [0, 2**23 - 1, 2**23, 2**24 + 2])
def test_every_chunk_is_compared(tmp_path: Path, where: int) -> None:
    content = bytearray(2**24 + 3)
    (tmp_path / "a").write_bytes(b"...." + content)
    content[where] = 1
    (tmp_path / "b").write_bytes(content)
    a = Weight("uint8", (len(content),), len(content), tmp_path / "a", 4, "a")
    b = Weight("uint8", (len(content),), len(content), tmp_path / "b", 0, "b")
    assert not a.equals(b)
    content[where] = 0
    (tmp_path / "b").write_bytes(content)
    assert a.equals(b)
    (tmp_path / "b").write_bytes(content[:-1])
    with pytest.raises(IntegrityError, match="shorter while it was read"):
        a.equals(b)


def whole(folder: Path, name: str = "whole", **parts: str) -> Path:
    with Staging(folder) as staging:
        entries = {}
        for part, body in sorted(parts.items()):
            made = folder.parent / "made" / part
            entries[part] = PartEntry(digest=publish(made, body).digest)
            made.rename(staging.path / part)
        staging.publish_parts(PartsContents(name=name, parts=entries))
    return folder


def test_parts(tmp_path: Path) -> None:
    tanh = BODY.replace("Relu", "HardSwish")
    a = whole(tmp_path / "a", encoder=BODY, decoder=BODY, first=BODY)
    b = whole(tmp_path / "b", encoder=tanh, decoder=BODY, last=BODY)
    found = diff(a, b)
    assert isinstance(found, PartsDiff)
    parts = {name: part.changed for name, part in found.parts.items()}
    assert parts == {"decoder": (), "encoder": ("ops", "size")}
    assert [(d.what, d.a, d.b) for d in found.signature] == [
        ("part first", "present", None),
        ("part last", None, "present"),
    ]
    assert found.changed == ("signature", "ops", "size")
    assert diff(a, a) == PartsDiff(a=found.a, b=found.a)
    renamed = whole(tmp_path / "c", "other", encoder=BODY, decoder=BODY, first=BODY)
    assert diff(a, renamed).changed == ("decisions",)
    with pytest.raises(UsageError, match=r"has the parts decoder, encoder, first, .* has none"):
        diff(a / "encoder", a)
    assert diff(a / "encoder", b / "encoder").changed == ("ops", "size")
