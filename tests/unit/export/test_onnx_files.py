"""Files that nobody should trust: each is refused before anything outside its folder is opened."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_files import constant, info, save

from aotc.errors import RefusedError, UsageError
from aotc.export.onnx_file import read_onnx
from aotc.export.onnx_source import OnnxSource, read_source

Node = helper.make_node
SIZE = 4 * 300 * 4


def with_external(folder: Path, **entries: str) -> Path:
    """Return a model whose weight ``w`` (300 x 4 float32) lies where ``entries`` say."""
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[300, 4])
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    nodes = [Node("MatMul", ["x", "w"], ["y"])]
    return save(folder / "m.onnx", nodes, [info("x", [1, 300])], [info("y", [1, 4])], [weight])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with weights inside, and a secret beside it."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    for path in (inside / "w.data", inside / "sub" / "w.data", tmp_path / "secret"):
        path.write_bytes(bytes(SIZE))
    (inside / "link").symlink_to(tmp_path / "secret")
    (inside / "linked").symlink_to(tmp_path)
    os.link(tmp_path / "secret", inside / "hard")
    os.mkfifo(inside / "fifo")
    return inside


@pytest.mark.parametrize("location", ["w.data", "sub/w.data", "./w.data"])
def test_data_beside_or_below_the_file_is_read(location: str, folder: Path) -> None:
    read_onnx(with_external(folder, location=location))
    read_onnx(with_external(folder, location=location, offset="0", length=str(SIZE)))


@pytest.mark.parametrize(
    "location",
    [
        "",
        "../secret",
        "sub/../../secret",
        "sub/../w.data",
        "junk/../../secret",
        "/etc/hostname",
        "//etc/hostname",
        "~/secret",
        "C:\\secret",
        "C:/secret",
        "\\\\host\\share",
        "..\\secret",
        "w.data\0",
        "w.data\n",
        "*/_ORT_MEM_ADDR_/*",
        "link",
        "linked/secret",
        "hard",
        "fifo",
        "sub",
        ".",
        "missing",
    ],
)
def test_data_anywhere_else_is_refused(location: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_external(folder, location=location)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the checker opens files")

    monkeypatch.setattr(onnx.checker, "check_model", never)
    with pytest.raises(RefusedError, match="tensor 'w'") as caught:
        read_onnx(path)
    assert caught.value.name == "external-data"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"offset": "-4"}, "beyond its end"),
        ({"offset": "4"}, "beyond its end"),
        ({"offset": str(2**63)}, "beyond its end"),
        ({"length": "4"}, "as 4 bytes"),
        ({"length": str(2**64)}, "as 18446744073709551616 bytes"),
        ({"length": "-1"}, "as -1 bytes"),
        ({"length": "many"}, "no number"),
        ({"offset": "0x10"}, "no number"),
        ({"__class__": "x"}, "the unknown key"),
    ],
)
def test_silly_sizes_are_refused(entries: dict[str, str], said: str, folder: Path) -> None:
    with pytest.raises(RefusedError, match=said):
        read_onnx(with_external(folder, location="w.data", **entries))


def hidden_in_a_branch(tensor: onnx.TensorProto) -> dict[str, object]:
    inner = helper.make_graph([Node("Identity", ["w"], ["t"])], "then", [], [info("t", [2])], [tensor])
    other = helper.make_graph([Node("Identity", ["x"], ["e"])], "else", [], [info("e", [2])])
    return {"nodes": [Node("If", ["c"], ["y"], then_branch=inner, else_branch=other)]}


def hidden_in_a_constant(tensor: onnx.TensorProto) -> dict[str, object]:
    return {"nodes": [Node("Constant", [], ["k"], value=tensor), Node("Add", ["x", "k"], ["y"])]}


def hidden_in_a_function(tensor: onnx.TensorProto) -> dict[str, object]:
    body = [Node("Constant", [], ["k"], value=tensor), Node("Add", ["a", "k"], ["b"])]
    function = helper.make_function("mine", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    return {
        "nodes": [Node("F", ["x"], ["y"], domain="mine")],
        "functions": [function],
        "domains": [helper.make_opsetid("mine", 1)],
    }


@pytest.mark.parametrize("hide", [hidden_in_a_branch, hidden_in_a_constant, hidden_in_a_function])
def test_tensors_are_found_wherever_they_hide(
    hide: Callable[[onnx.TensorProto], dict[str, object]], tmp_path: Path
) -> None:
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    inputs = [info("x", [2]), info("c", [], "bool")]
    path = save(tmp_path / "m.onnx", inputs=inputs, outputs=[info("y", [2])], **hide(tensor))  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="leaves the folder"):
        read_onnx(path)


def tiny(folder: Path) -> Path:
    nodes = [Node("MatMul", ["x", "w"], ["m"]), Node("Relu", ["m"], ["y"])]
    weight = constant("w", np.ones((4, 30)))
    return save(folder / "m.onnx", nodes, [info("x", ["n", 4])], [info("y", ["n", 30])], [weight])


@pytest.mark.parametrize("content", [b"", b"hello, world\n", b"PK\x03\x04" + bytes(100), b"\x80\x02}q\x00."])
def test_what_is_no_onnx_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(RefusedError, match="no ONNX file"):
        read_onnx(path)


def test_there_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "m.onnx", tmp_path):
        with pytest.raises(UsageError, match="there is no file"):
            read_onnx(path)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    """A file that is cut or has bytes changed is refused as what it is, or still a valid file."""
    content = bytearray(tiny(tmp_path).read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.onnx"
    path.write_bytes(bytes(content))
    with contextlib.suppress(RefusedError):
        onnx.checker.check_model(read_onnx(path))


def test_sizes_that_do_not_fit_the_bytes(tmp_path: Path) -> None:
    for dims in ([4, 31], [2**40, 2**40], [-4, -30]):
        proto = onnx.load(tiny(tmp_path))
        del proto.graph.initializer[0].dims[:]
        proto.graph.initializer[0].dims.extend(dims)
        path = tmp_path / "m.onnx"
        path.write_bytes(proto.SerializeToString())
        with pytest.raises(RefusedError, match="'w'"):
            read_onnx(path)


def test_what_the_checker_refuses(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [Node("Relu", ["nothing"], ["y"])], [info("x", [2])], [info("y", [2])])
    with pytest.raises(RefusedError, match=r"is not valid: .*nothing"):
        read_onnx(path)


def functions(calls: int, depth: int) -> list[onnx.FunctionProto]:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    made = [helper.make_function("mine", "F0", ["a"], ["b"], [Node("Relu", ["a"], ["b"])], imports)]
    for level in range(1, depth):
        names = ["a", *(f"v{i}" for i in range(calls - 1)), "b"]
        body = [Node(f"F{level - 1}", [names[i]], [names[i + 1]], domain="mine") for i in range(calls)]
        made.append(helper.make_function("mine", f"F{level}", ["a"], ["b"], body, imports))
    return made


def test_functions_that_grow_beyond_measure(tmp_path: Path) -> None:
    domains = [helper.make_opsetid("mine", 1)]
    path = save(
        tmp_path / "m.onnx",
        [Node("F25", ["x"], ["y"], domain="mine")],
        [info("x", [2])],
        [info("y", [2])],
        functions=functions(2, 26),
        domains=domains,
    )
    with pytest.raises(RefusedError, match="more than 1,000,000 nodes"):
        read_onnx(path)


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    loop = helper.make_function("mine", "F", ["a"], ["b"], [Node("F", ["a"], ["b"], domain="mine")], imports)
    path = save(
        tmp_path / "m.onnx",
        [Node("F", ["x"], ["y"], domain="mine")],
        [info("x", [2])],
        [info("y", [2])],
        functions=[loop],
        domains=[helper.make_opsetid("mine", 1)],
    )
    with pytest.raises(RefusedError, match="calls itself"):
        read_onnx(path)


def test_sparse_tensors(tmp_path: Path) -> None:
    sparse = helper.make_sparse_tensor(constant("s", [5.0]), constant("i", [1], "int64"), [3])
    graph = helper.make_graph(
        [Node("Add", ["x", "s"], ["y"])], "g", [info("x", [3])], [info("y", [3])], sparse_initializer=[sparse]
    )
    opsets = [helper.make_opsetid("", 24)]
    initialiser, attribute = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), initialiser)
    nodes = [Node("Constant", [], ["s"], sparse_value=sparse), Node("Add", ["x", "s"], ["y"])]
    save(attribute, nodes, [info("x", [3])], [info("y", [3])])
    for path in (initialiser, attribute):
        with pytest.raises(RefusedError, match="'s' as a sparse tensor"):
            read_onnx(path)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    content = tiny(tmp_path).read_bytes()
    for name in (b"graph", b"MatMul", b"\x01w"):
        path = tmp_path / "damaged.onnx"
        path.write_bytes(content.replace(name, name[:-1] + b"\xb1"))
        with pytest.raises(RefusedError, match="names that are not UTF-8"):
            read_onnx(path)


def test_types_that_do_not_exist(tmp_path: Path) -> None:
    model = onnx.load(tiny(tmp_path))
    model.graph.input[0].type.tensor_type.elem_type = 33
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(RefusedError, match="the input 'x' is of type 33"):
        read_source(OnnxSource(tmp_path / "m.onnx"))
