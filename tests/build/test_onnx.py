"""Whole builds of ONNX files: published if equal to the untouched file, else nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_files import constant, info, save

import aotc
from aotc import pipeline
from aotc.bisect import Question, find_value
from aotc.bundle import open_bundle
from aotc.config import Options
from aotc.errors import CompatibilityError, InputError, RefusedError
from aotc.export import upgrade
from aotc.parity.failure import ParityError
from aotc.sources import open_source

Node = helper.make_node
RNG = np.random.default_rng(0)
OPTIONS = Options(threads=1)
X = RNG.standard_normal((3, 4)).astype(np.float32)


def classifier(folder: Path, *, scale: float = 1.0, opset: int = 9) -> Path:
    """An embedding, a normalisation and a linear layer in the forms that opset 9 had."""
    nodes = [
        Node("Gather", ["table", "ids"], ["rows"]),
        Node("Add", ["rows", "x"], ["sum"]),
        Node("BatchNormalization", ["sum", "s", "b", "m", "v"], ["n"]),
        Node("Clip", ["n"], ["c"], min=-2.0, max=2.0),
        Node("MatMul", ["c", "w"], ["logits"], name="/head/MatMul"),
        Node("Softmax", ["logits"], ["p"]),
    ]
    constants = [
        constant("table", scale * np.random.default_rng(1).standard_normal((11, 4))),
        *(constant(name, np.linspace(0.5, 1.5, 4)) for name in "sbmv"),
        constant("w", np.random.default_rng(2).standard_normal((4, 700))),
    ]
    inputs = [info("x", ["n", 4]), info("ids", ["n"], "int64")]
    outputs = [info("logits", ["n", 700]), info("p", ["n", 700])]
    return save(folder / "classifier.onnx", nodes, inputs, outputs, constants, opset=opset)


def build(path: Path, out: Path, **fields: object) -> pipeline.BuildResult:
    return pipeline.build(open_source(path, **fields), OPTIONS, out)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pipeline.BuildResult]:
    folder = tmp_path_factory.mktemp("onnx")
    path = classifier(folder)
    return path, build(path, folder / "bundle", sizes={"n": (1, 3, 8)})


def test_what_is_published_computes_what_the_file_does(built: tuple[Path, pipeline.BuildResult]) -> None:
    path, result = built
    assert result.verdict.passed
    assert result.description.name == "classifier"
    assert {size["n"] for size in result.description.verified_sizes} >= {1, 3, 8}
    import onnxruntime

    ids = np.array([0, -1, 10])
    want = onnxruntime.InferenceSession(path).run(None, {"x": X, "ids": ids})
    with aotc.load(result.directory) as engine:
        got = engine.run(X, ids)
        assert list(got) == ["logits", "p"]
        np.testing.assert_allclose(got["logits"], want[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got["p"], want[1], rtol=1e-5, atol=1e-6)
        with pytest.raises(InputError, match="from -11 to 10, not 11"):
            engine.run(X, np.array([0, 11, 1]))


def test_the_bound_is_derived_from_the_file_in_float64(built: tuple[Path, pipeline.BuildResult]) -> None:
    cases = [case for engine in built[1].verdict.engines for case in engine.cases]
    origins = {figures.tolerance for case in cases for figures in case.outputs}
    assert origins == {"derived"}


def test_checked_again_against_the_file(built: tuple[Path, pipeline.BuildResult], tmp_path: Path) -> None:
    path, result = built
    assert aotc.check(result.directory).passed
    assert aotc.check(result.directory, path, threads=1).passed
    assert not aotc.check(result.directory, classifier(tmp_path, scale=1.01), threads=1).passed
    nodes = [Node("Relu", ["x"], ["logits"])]
    other = save(tmp_path / "other.onnx", nodes, [info("x", ["n", 4])], [info("logits", ["n", 4])])
    with pytest.raises(CompatibilityError, match="other inputs or outputs"):
        aotc.check(result.directory, other)


def test_the_same_file_gives_the_same_bytes(built: tuple[Path, pipeline.BuildResult], tmp_path: Path) -> None:
    again = build(classifier(tmp_path), tmp_path / "bundle", sizes={"n": (1, 3, 8)})
    assert again.description.digest == built[1].description.digest


def test_a_conversion_that_changes_the_result_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound comes from the untouched file as well: a fault of the converter can't widen it."""
    convert = upgrade._converted

    def faulty(proto: onnx.ModelProto) -> onnx.ModelProto:
        converted = convert(proto)
        for node in converted.graph.node:
            if node.op_type == "BatchNormalization":
                node.attribute.append(helper.make_attribute("epsilon", 0.001))
        return converted

    monkeypatch.setattr(upgrade, "_converted", faulty)
    with pytest.raises(ParityError):
        build(classifier(tmp_path), tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_external_data_of_an_old_file(tmp_path: Path) -> None:
    path = classifier(tmp_path)
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, location="w.data", size_threshold=64)
    assert (tmp_path / "w.data").stat().st_size > 4 * 700
    assert build(path, tmp_path / "bundle", inputs={"x": X, "ids": np.arange(3)}).verdict.passed


def test_an_empty_axis_is_refused_unless_a_profile_asks_for_it(tmp_path: Path) -> None:
    path = save(
        tmp_path / "m.onnx", [Node("Neg", ["x"], ["y"])], [info("x", ["n", 4])], [info("y", ["n", 4])]
    )
    for profile, allowed in (({}, False), ({"n": (0, 2, 4)}, True)):
        with aotc.load(build(path, tmp_path / "bundle", sizes=profile).directory) as engine:
            if allowed:
                assert engine.run(X[:0])["y"].shape == (0, 4)
            else:
                with pytest.raises(InputError, match="'n' must be 1 to any size, not 0"):
                    engine.run(X[:0])


def test_a_random_file_is_refused(tmp_path: Path) -> None:
    nodes = [Node("RandomNormalLike", ["x"], ["r"]), Node("Add", ["x", "r"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [info("x", [2, 4])], [info("y", [2, 4])])
    with pytest.raises(RefusedError, match="not deterministic"):
        build(path, tmp_path / "bundle")


PACKAGED = {
    "magika/models/standard_v3_3/model.onnx": {},
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": {
        "x_0": (1, 2, 3),
        "x_2": (48, 48, 48),
        "x_3": (48, 96, 192),
    },
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": {
        "p2o_DynamicDimension_0": (1, 1, 2),
        "x_2": (48, 48, 48),
        "p2o_DynamicDimension_1": (48, 96, 160),
    },
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": {
        "p2o_DynamicDimension_0": (1, 1, 2),
        "p2o_DynamicDimension_1": (64, 64, 64),
        "p2o_DynamicDimension_2": (96, 96, 96),
    },
    "silero_vad/data/silero_vad_openvino_16k.onnx": {},
    "silero_vad/data/silero_vad_16k_sequence.onnx": {"sequence_length": (1, 2, 5)},
    "silero_vad/data/silero_vad_16k_op15.onnx": {"batch": (1, 1, 3), "sequence": (512, 512, 512)},
    "silero_vad/data/silero_vad_half.onnx": {"batch": (1, 1, 3), "sequence": (576, 576, 576)},
    "silero_vad/data/silero_vad_op18_ifless.onnx": {"batch": (1, 1, 3), "sequence": (512, 512, 512)},
    "silero_vad/data/silero_vad.onnx": {"input_0": (1, 1, 3), "input_1": (512, 512, 512)},
}


@pytest.mark.full
@pytest.mark.parametrize("name", PACKAGED)
def test_models_of_other_people(name: str, tmp_path: Path) -> None:
    """Real files of PyTorch, TensorFlow and Paddle, at opsets 11 to 18."""
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    inputs = None
    if package == "silero_vad" and "sequence" not in name and "openvino" not in name:
        wave = 0.1 * np.random.default_rng(0).standard_normal((1, PACKAGED[name].get("sequence", (512,))[0]))
        inputs = {"input": wave.astype(np.float32), "state": np.zeros((2, 1, 128), np.float32)}
        inputs |= {} if "half" in name else {"sr": np.array(16000)}
    result = build(Path(spec.origin).parent / rest, tmp_path / "bundle", inputs=inputs, sizes=PACKAGED[name])
    origins = {f.tolerance for e in result.verdict.engines for case in e.cases for f in case.outputs}
    assert origins <= {"derived", "exact"}


@pytest.mark.parametrize("table", [1.0, 1.01])
def test_the_first_wrong_value_is_found_in_the_file(
    built: tuple[Path, pipeline.BuildResult], tmp_path: Path, table: float
) -> None:
    """The file changed since: its table, or the slope of a Clip."""
    changed = classifier(tmp_path, scale=table)
    if table == 1.0:
        proto = onnx.load(changed)
        next(node for node in proto.graph.node if node.op_type == "Clip").attribute[0].f = -0.1
        onnx.save(proto, changed)
    feeds = {"x": X, "ids": np.arange(3)}
    question = Question(feeds, {}, tmp_path / "found", threads=1)
    with open_bundle(built[1].directory) as bundle:
        found = find_value(bundle, "model.onnx", open_source(changed), OPTIONS, question)
    assert found is not None
    assert found.op == ("Clip 'c'" if table == 1.0 else "Gather 'rows'")
    assert (tmp_path / "found" / "run.py").is_file()


def rated(folder: Path, limit: int) -> Path:
    """A file that negates where the rate is above ``limit``."""
    sides = [helper.make_graph([Node(op, ["x"], [op])], op, [], [info(op, None)]) for op in ("Neg", "Abs")]
    nodes = [
        Node("Greater", ["rate", "limit"], ["high"]),
        Node("If", ["high"], ["y"], name="by_rate", then_branch=sides[0], else_branch=sides[1]),
    ]
    inputs = [info("x", ["n", 4]), info("rate", [], "int64")]
    return save(
        folder / "rated.onnx", nodes, inputs, [info("y", ["n", 4])], [constant("limit", limit, "int64")]
    )


@pytest.mark.parametrize("limit", [8, 7, 100])
def test_a_branch_that_no_input_took_is_told(tmp_path: Path, limit: int) -> None:
    given = {"x": X, "rate": np.asarray(8)}
    found = build(rated(tmp_path, limit), tmp_path / "b", inputs=given, sizes={"n": (1, 3, 4)})
    notes = [note for note in found.notes if "branch" in note]
    assert bool(notes) == (limit == 100)
    if notes:
        assert notes[0].startswith("no input of the gate took the then_branch of If 'by_rate'")


def test_a_node_that_shifts_the_names_is_not_blamed(tmp_path: Path) -> None:
    """Exported again with one node more, which changes nothing, so that names go to other values."""

    def write(name: str, last: str, *first: str) -> Path:
        ops, value, nodes = (*first, "scale", "scale", "scale"), "x", []
        for index, op in enumerate(ops):
            nodes += [
                Node("Mul", [value, op], [f"mul_{index}"]),
                Node("Tanh", [f"mul_{index}"], [f"t_{index}"]),
            ]
            value = f"mul_{index}" if op == "one" else f"t_{index}"
        nodes.append(Node(last, [value], ["y"]))
        constants = [constant("scale", np.asarray(1.5)), constant("one", np.asarray(1.0))]
        shapes = [info("x", [3, 4])], [info("y", [3, 4])]
        return save(tmp_path / name, nodes, *shapes, constants, opset=20)

    build(write("before.onnx", "Sin"), tmp_path / "bundle")
    changed = write("after.onnx", "Cos", "one")
    question = Question({"x": X}, {}, tmp_path / "found", threads=1)
    with open_bundle(tmp_path / "bundle") as bundle:
        found = find_value(bundle, "model.onnx", open_source(changed), OPTIONS, question)
    assert found is not None
    assert found.op == "Cos 'y'", str(found)
    assert found.agreeing == 1
