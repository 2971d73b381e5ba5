"""The child process that parses and builds: native code of TensorRT may end the process it runs in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from aotc import optional
from aotc.backends.tensorrt_rtx import ENGINE, PACKAGE
from aotc.backends.tensorrt_rtx.network import check_network, make_attention_decomposable
from aotc.backends.tensorrt_rtx.profiles import Shapes
from aotc.child import Progress
from aotc.errors import RefusedError
from aotc.ir import scopes
from aotc.signature import Signature

_SHOWN = 3
_SOURCES = re.compile(r"\.? In \w+ at \S+:\d+")
"""Where in TensorRT's own code a message comes from."""


def compile_in_child(payload: dict[str, Any], progress: Progress) -> Any:
    """Compile the graph of ``payload`` (see ``build.compile_engine``) and return the version of TensorRT-RTX.

    Raises:
        RefusedError: It cannot be compiled, or would be another function.
        MissingError: The package is not installed.
    """
    trt = optional.require(PACKAGE)
    directory = Path(payload["directory"])
    path = directory / payload["graph"]
    model = ir.load(path)
    log = _log(trt)
    builder = trt.Builder(log)
    progress("parse")
    network, parser = _parse(trt, builder, log, path, model)
    check_network(trt, network, model.graph, Signature.model_validate(payload["signature"]))
    make_attention_decomposable(trt, network)
    config = _config(trt, builder, payload["architectures"], payload["profiles"])
    progress("build")
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        raise _refused(model, log.errors, "cannot build this graph")
    del parser  # it owns weights of the network
    (directory / ENGINE).write_bytes(engine)
    return str(trt.__version__)


def _log(trt: Any) -> Any:
    """Return a logger that keeps the errors: what the builder returns says only that it failed."""

    class Log(trt.ILogger):  # type: ignore[misc]  # known at run time only
        def __init__(self) -> None:
            super().__init__()
            self.errors: list[str] = []

        def log(self, severity: Any, text: str) -> None:
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.errors.append(text.strip())

    return Log()


def _parse(trt: Any, builder: Any, log: Any, path: Path, model: ir.Model) -> tuple[Any, Any]:
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(path)):
        errors = [parser.get_error(i) for i in range(parser.num_errors)]
        texts = [f"{error.node_operator()} '{error.node_name()}': {error.desc()}" for error in errors]
        raise _refused(model, texts or log.errors, "cannot parse this graph")
    return network, parser


def _config(trt: Any, builder: Any, architectures: Sequence[str], profiles: Sequence[Shapes]) -> Any:
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)  # it rounds the operands of float32 products to 10 bits
    config.num_compute_capabilities = len(architectures)
    for index, name in enumerate(architectures):
        wanted = getattr(trt.ComputeCapability, name.upper().replace("_", ""))
        if not config.set_compute_capability(wanted, index):
            raise RefusedError(f"this TensorRT-RTX does not compile for {name}", slug="tensorrt-rtx")
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        for name, ends in shapes.items():
            profile.set_shape(name, *ends)
        config.add_optimization_profile(profile)
    return config


def _refused(model: ir.Model, texts: Sequence[str], what: str) -> RefusedError:
    """Return the refusal with what TensorRT said, and the first node that it named."""
    said = "; ".join(dict.fromkeys(texts)) or "no reason was given"
    place = next((place for text in texts if (place := scopes.place_in_text(model, text))), None)
    return RefusedError(
        f"TensorRT-RTX {what}: {_shortened(said)}",
        slug="tensorrt-rtx",
        where=place,
        hint="write that line with other operators, or build for ort-cpu",
    )


def _shortened(text: str) -> str:
    lines = [line.strip() for line in _SOURCES.sub("", text).splitlines() if line.strip()]
    return " ".join(lines[:_SHOWN])[:600]
