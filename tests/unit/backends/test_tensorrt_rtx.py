"""The target tensorrt-rtx: what is refused before and after parsing, and that the rest compiles."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest
from rtx import GRAPH, graph_of, needs_rtx, payload_of, signature_of

from aotc.backends.tensorrt_rtx import ENGINE
from aotc.backends.tensorrt_rtx.build import compile_engine
from aotc.backends.tensorrt_rtx.profiles import profile_shapes
from aotc.backends.tensorrt_rtx.traps import refuse_traps
from aotc.child import run_in_child
from aotc.errors import RefusedError, UsageError
from aotc.ir.scopes import SCOPES, STACK

CHILD = "aotc.backends.tensorrt_rtx.compile:compile_in_child"
FOREIGN = "g (float[2,3] x) => (float[2,3] y) { y = my.Relu (x) }"
LENGTHS = """g (float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v, int64[1] n) => (float[1,2,4,8] y) {
    y = Attention (q, k, v, , , , n)
}"""
KEYS = "g (float[1,2,4,8] q, float[1,2,4,8] v) => (float[1,2,4,8] y) { y = Attention (q, q, v) }"
WIDE_INPUT = "g (double[2] x) => (double[2] y) { y = Neg (x) }"
WIDE = [
    WIDE_INPUT,
    "g (float[2] x) => (double[2] y) { y = Cast <to = 11> (x) }",
    "g (float[2] x) => (float[2] y) { h = Cast <to = 11> (x) z = Neg (h) y = Cast <to = 1> (z) }",
    "g (float[2] x) => (float[2] y) <double c = {0.1}> { h = CastLike (x, c) y = Cast <to = 1> (h) }",
    "g (float[2] x, int64[1] s) => (float[2] y) "
    "{ h = ConstantOfShape <value = double[1] {1.0}> (s) z = Cast <to = 1> (h) y = Add (x, z) }",
    "g (float[2] x) => (float[2] y) "
    "{ h = EyeLike <dtype = 11> (x) z = ReduceSum <keepdims = 0> (h) t = Cast <to = 1> (z) y = Add (x, t) }",
    "g (bool c, float[2] x) => (float[2] y) { y = If (c) <"
    "then_branch = t () => (float[2] a) { h = Cast <to = 11> (x) a = Cast <to = 1> (h) }, "
    "else_branch = e () => (float[2] b) { b = Neg (x) }> }",
]


@pytest.mark.parametrize("op", ["Relu", "Attention", "LayerNormalization", "Gelu"])
@pytest.mark.parametrize("domain", ["my", "com.microsoft"])
def test_an_operator_of_another_domain_with_a_standard_name_is_refused(domain: str, op: str) -> None:
    model = graph_of(FOREIGN)
    node = model.graph.node(0)
    node.domain, node.op_type = domain, op
    text = f"{domain}::{op} would be taken for ONNX's own {op}"
    with pytest.raises(RefusedError, match=text) as caught:
        refuse_traps(model)
    assert caught.value.where == f"{op} 'node_y'"
    node.op_type = "Foo"
    refuse_traps(model)


def test_lengths_of_keys_are_refused() -> None:
    model = graph_of(LENGTHS)
    with pytest.raises(RefusedError, match=r"'n' \(nonpad_kv_seqlen\) would be left out") as caught:
        refuse_traps(model)
    assert caught.value.where == "Attention 'node_y'"
    model.graph.node(0).replace_input_with(6, None)
    refuse_traps(model)


def test_queries_that_are_keys_are_refused() -> None:
    model = graph_of(KEYS)
    with pytest.raises(RefusedError, match="the queries of attention are its keys") as caught:
        refuse_traps(model)
    assert caught.value.where == "Attention 'node_y'"


@needs_rtx
def test_queries_that_are_keys_crash_the_builder(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="native code crashed with SIGSEGV"):
        run_in_child(CHILD, payload_of(tmp_path, graph_of(KEYS)), lambda _: None)


@pytest.mark.parametrize("text", WIDE)
def test_float64_is_refused_wherever_it_comes_from(text: str) -> None:
    with pytest.raises(RefusedError, match="float64"):
        refuse_traps(graph_of(text))
    refuse_traps(graph_of(text.replace("double", "float").replace("11", "1")))


@needs_rtx
@pytest.mark.parametrize("text", [FOREIGN, *WIDE[2:4]])
def test_without_the_refusal_it_would_compile(text: str, tmp_path: Path) -> None:
    run_in_child(CHILD, payload_of(tmp_path, graph_of(text)), lambda _: None)
    assert (tmp_path / ENGINE).stat().st_size > 1000


@needs_rtx
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LENGTHS, "the input 'n' is read by the graph and by no layer"),
        (WIDE_INPUT, "the input 'x' is float32 in the network and float64 in the graph"),
        (WIDE[1], "the output 'y' is float32 in the network and float64 in the graph"),
    ],
)
def test_the_walk_sees_what_the_parser_dropped_or_changed(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=reason):
        run_in_child(CHILD, payload_of(tmp_path, graph_of(text)), lambda _: None)
    assert not (tmp_path / ENGINE).exists()


@needs_rtx
def test_an_input_that_nobody_reads_is_no_fault(tmp_path: Path) -> None:
    model = graph_of("g (float[2] x, float[2] unused) => (float[2] y) { y = Neg (x) }")
    run_in_child(CHILD, payload_of(tmp_path, model), lambda _: None)
    assert (tmp_path / ENGINE).exists()


def test_every_dim_needs_a_profile() -> None:
    model = graph_of("g (float[batch,seq] x) => (float[batch,seq] y) { y = Neg (x) }")
    with pytest.raises(UsageError, match="the dim 'seq' has no profile") as caught:
        profile_shapes(signature_of(model, {"batch": (1, 2, 4)}))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith('profiles = [{"batch": (1, 2, 4), "seq": (1, 8, 64)}]')
    with pytest.raises(UsageError, match="the dim 'batch' has no profile"):
        profile_shapes(signature_of(model))


def test_profiles_become_shapes_of_every_dynamic_input() -> None:
    model = graph_of(
        "g (float[batch,seq] x, float[2,3] fixed, int64[a] i, float[b] r) => (float[batch,seq] y) "
        "{ y = Neg (x) }"
    )
    model.graph.inputs[2].shape, model.graph.inputs[3].shape = ir.Shape(["2*seq"]), ir.Shape(["8 - seq"])
    found = profile_shapes(signature_of(model, {"batch": (1, 2, 4), "seq": (1, 3, 5)}))
    assert found == [
        {"x": ((1, 1), (2, 3), (4, 5)), "i": ((2,), (6,), (10,)), "r": ((3,), (5,), (7,))},
    ]
    assert profile_shapes(signature_of(graph_of("g (float[2] x) => (float[2] y) { y = Neg (x) }"))) == []


@needs_rtx
@pytest.mark.parametrize("architectures", [("sm_86",), ("sm_80", "sm_86", "sm_89", "sm_120", "sm_121")])
def test_it_compiles_for_several_architectures(architectures: tuple[str, ...], tmp_path: Path) -> None:
    model = graph_of(
        "g (float[batch,4] x) => (float[batch,2] y) "
        "<float[4,2] w = {1.0, 0.5, -0.25, 2.0, 0.125, 1.5, -1.0, 0.75}> { y = MatMul (x, w) }"
    )
    profile = {"batch": (1, 2, 8)}
    payload_of(tmp_path, model, profile)
    said: list[str] = []
    signature = signature_of(model, profile)
    (entry,) = compile_engine(tmp_path, GRAPH, signature, architectures, said.append)
    assert entry.file == ENGINE
    assert entry.requires is not None
    assert entry.requires.architectures == architectures
    assert said == ["parse", "build"]
    assert (tmp_path / ENGINE).stat().st_size > 1000


@needs_rtx
def test_a_graph_in_float16_has_its_rounding_beside_it(tmp_path: Path) -> None:
    model = graph_of("g (float16[2,3] x) => (float16[2,3] y) { y = Exp (x) }")
    payload_of(tmp_path, model)
    entries = compile_engine(tmp_path, GRAPH, signature_of(model), ("sm_86",), lambda _: None)
    assert [(entry.file, entry.kind) for entry in entries] == [
        ("model.rounded.onnx", "rounded"),
        ("model.engine", "tensorrt-rtx"),
    ]
    assert [node.op_type for node in ir.load(tmp_path / "model.rounded.onnx").graph] == [
        "Cast",
        "Exp",
        "Cast",
    ]


@needs_rtx
@pytest.mark.parametrize("dtype", ["float", "float16"])
@pytest.mark.parametrize(
    ("heads", "size", "operands"),
    [(1, 8, "q, k, v, m"), (2, 64, "q, k, v, m"), (2, 32, "q, v, v"), (2, 32, "q, k, q")],
)
def test_attention_compiles_whatever_its_operands_are(
    dtype: str, heads: int, size: int, operands: str, tmp_path: Path
) -> None:
    shape = f"{dtype}[1,{heads},s,{size}]"
    model = graph_of(
        f"g ({shape} q, {shape} k, {shape} v, bool[s,s] m) => ({shape} y, {shape} z, bool[s,s] n) "
        f"{{ y = Attention ({operands}) t = Add (q, k) z = Add (t, v) n = Not (m) }}"
    )
    run_in_child(CHILD, payload_of(tmp_path, model, {"s": (1, 8, 16)}), lambda _: None)
    assert (tmp_path / ENGINE).exists()


@needs_rtx
@pytest.mark.parametrize(
    ("text", "reason", "architecture"),
    [
        ("g (float[3,3] x) => (float y) { y = Det (x) }", "cannot parse this graph: Det 'node_y'", "sm_86"),
        ("g (float[3,3] x) => (float[3,3] y) { y = MatMul (x, x) }", "FP32 GEMM is not supported", "sm_75"),
        ("g (float[3] x) => (float[3] y) { y = my.Foo (x) }", "cannot parse this graph: Foo", "sm_86"),
    ],
)
def test_a_refused_operator_names_node_module_and_line(
    text: str, reason: str, architecture: str, tmp_path: Path
) -> None:
    model = graph_of(text)
    node = model.graph.node(0)
    node.metadata_props[SCOPES] = "['', 'encoder.head', 'op']"
    node.metadata_props[STACK] = 'File "/home/me/model.py", line 12, in forward'
    with pytest.raises(RefusedError, match=reason) as caught:
        run_in_child(CHILD, payload_of(tmp_path, model, None, (architecture,)), lambda _: None)
    assert caught.value.exit_code == 3
    assert caught.value.where == f"encoder.head (model.py:12), {node.op_type} 'node_y'"
    assert "/_src/" not in caught.value.message
    assert not (tmp_path / ENGINE).exists()


@needs_rtx
def test_a_child_that_aborts_is_an_error_and_no_crash(tmp_path: Path) -> None:
    model = graph_of("g (float[2] x) => (float[2] y) { y = my.Foo (x) }")
    with pytest.raises(RefusedError, match="native code crashed with SIGABRT") as caught:
        run_in_child("rtx_abort:compile_with_plugin", payload_of(tmp_path, model), lambda _: None)
    assert caught.value.where == "parse"


@needs_rtx
def test_equal_graphs_of_one_dynamic_dim_give_equal_bytes(tmp_path: Path) -> None:
    model = graph_of("g (float[batch,4] x) => (float[batch,4] y) { h = Exp (x) y = Mul (h, x) }")
    payload = payload_of(tmp_path, model, {"batch": (1, 2, 8)})
    contents = set()
    for _ in range(2):
        run_in_child(CHILD, payload, lambda _: None)
        contents.add((tmp_path / ENGINE).read_bytes())
    assert len(contents) == 1
