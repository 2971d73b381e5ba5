"""ONNX files that are refused."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import onnx
from onnx import helper
from onnx_files import constant, info, save

from error_cases.registry import build, case

Node = helper.make_node
FILE = Path("net.onnx")


@case("RefusedError", "onnx-file")
def a_file_that_does_not_parse() -> None:
    FILE.write_bytes(b"not a model")
    build("net.onnx")


@case("RefusedError", "external-data")
def a_file_that_reads_elsewhere() -> None:
    tensor = constant("w", [1.0, 2.0])
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    save(FILE, [Node("Add", ["x", "w"], ["y"])], [info("x", [2])], [info("y", [2])], [tensor])
    build("net.onnx")


@case("RefusedError", "onnx-functions")
def a_function_that_cannot_be_inlined() -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", ["a"], ["b"], [Node("Relu", ["a"], ["b"])], imports)
    nodes = [Node("F", ["x"], ["y"], domain="own")]
    domains = [helper.make_opsetid("own", 1)]
    save(FILE, nodes, [info("x", [2])], [info("y", [2])], domains=domains, functions=[function])
    broken = RuntimeError("[/onnx_src/inliner.cc:9]Unable to convert function F")
    with mock.patch("onnx.inliner.inline_local_functions", side_effect=broken):
        build("net.onnx")


@case("RefusedError", "onnx-interface")
def a_file_without_inputs() -> None:
    save(FILE, [Node("Identity", ["w"], ["y"])], [], [info("y", [1])], [constant("w", [1.0])])
    build("net.onnx")


@case("RefusedError", "onnx-opset")
def an_operator_that_changed_its_meaning() -> None:
    nodes = [Node("Hardmax", ["x"], ["y"], name="h")]
    save(FILE, nodes, [info("x", [2, 3, 4])], [info("y", [2, 3, 4])], opset=11)
    build("net.onnx")


@case("RefusedError", "oracle")
def an_operator_of_another_domain() -> None:
    nodes = [Node("Secret", ["x"], ["y"], domain="ours")]
    domains = [helper.make_opsetid("ours", 1)]
    save(FILE, nodes, [info("x", [2])], [info("y", [2])], domains=domains)
    build("net.onnx")
