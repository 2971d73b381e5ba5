"""Bundles that are damaged, not for this machine, or asked for what they do not have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from rtx import as_rtx_bundle, graph_of

import aotc
from aotc.backends.tensorrt_rtx.traps import refuse_traps
from aotc.bundle import Contents, EngineEntry, FileEntry, seal
from error_cases.registry import build, case, command, net


@case("UsageError", "bundle")
def a_bundle_that_is_not_there() -> None:
    command("run", "nothing", "--random")


@case("IntegrityError", "integrity")
def a_byte_that_changed() -> None:
    content = bytearray(Path("bundle/model.onnx").read_bytes())
    content[0] ^= 1
    Path("bundle/model.onnx").write_bytes(content)
    command("check", "bundle")


@case("CompatibilityError", "compatibility")
def a_bundle_from_the_future() -> None:
    described = json.loads(Path("bundle/bundle.json").read_text())
    Path("bundle/bundle.json").write_text(json.dumps({**described, "schema_version": 99}))
    command("check", "bundle")


@case("InputError", "input")
def a_size_that_no_profile_allows() -> None:
    with aotc.load("bundle") as engine:
        engine.run(np.ones((9, 4), np.float32))


@case("UsageError", "input")
def inputs_that_are_no_archive() -> None:
    Path("in.npz").write_text("text")
    command("run", "bundle", "--input", "in.npz")


@case("UsageError", "engine")
def an_engine_that_is_closed() -> None:
    with aotc.load("bundle") as engine:
        pass
    engine.run(np.ones((2, 4), np.float32))


@case("UsageError", "asset")
def an_asset_that_does_not_exist() -> None:
    with aotc.load("bundle") as engine:
        engine.asset("tokenizer.json")


@case("UsageError", "threads")
def no_threads_at_all() -> None:
    aotc.load("bundle", threads=0)


@case("UsageError", "state")
def a_stream_without_state() -> None:
    with aotc.load("bundle") as engine:
        engine.session()


@case("UsageError", "sizes")
def sizes_of_a_dim_that_does_not_exist() -> None:
    command("bench", "bundle", "--sizes", "seq=3")


@case("ParityError", "parity")
def a_source_that_changed_since() -> None:
    text = Path("model.py").read_text()
    Path("model.py").write_text(text.replace("self.second(", "1.5 * self.second("))
    command("check", "bundle", "model.py")


@case("UsageError", "bisect")
def a_metric_that_alone_is_wrong() -> None:
    metric = "\n\ncalls = []\n\n\ndef accuracy(run):\n    calls.append(1)\n    return min(len(calls), 2)\n"
    Path("model.py").write_text(Path("model.py").read_text() + metric)
    command("check", "bundle", "model.py", "--bisect")


@case("VerdictError", "diff")
def a_weight_that_must_not_change() -> None:
    Path("other.py").write_text(Path("model.py").read_text().replace("manual_seed(0)", "manual_seed(2)"))
    command("build", "other.py", "-o", "other")
    command("diff", "bundle", "other", "--fail-on", "weights")


@case("RefusedError", "bundle")
def a_number_that_json_does_not_have() -> None:
    described = json.loads(Path("bundle/bundle.json").read_text())
    seal(
        Contents(
            producer={},
            name="tiny",
            target="ort-cpu",
            level="executed",
            signature=described["signature"],
            engines=(EngineEntry(file="model.onnx", kind="portable"),),
            options={"seed": 2**60},
            files={"model.onnx": FileEntry(size=1, sha256="0" * 64)},
        )
    )


@case("UnexecutedError", "unexecuted")
def a_check_of_an_engine_that_is_not_run_here() -> None:
    as_rtx_bundle(Path("bundle"), Path("device"))
    command("check", "device")


@case("CompatibilityError", "compatibility")
def an_engine_that_was_never_run() -> None:
    as_rtx_bundle(Path("bundle"), Path("device"))
    aotc.load("device")


@case("CompatibilityError", "compatibility")
def an_engine_of_another_target() -> None:
    as_rtx_bundle(Path("bundle"), Path("device"))
    aotc.load("device", allow_unexecuted=True)


@case("RefusedError", "tensorrt-rtx")
def an_operator_that_tensorrt_takes_for_another() -> None:
    refuse_traps(graph_of("g (float[2] x) => (float[2] y) { y = my.Relu (x) }"))


@case("UsageError", "config")
def an_architecture_that_tensorrt_does_not_know() -> None:
    command("build", "model.py", "--target", "tensorrt-rtx:sm_90", "-o", "out")


@case("UsageError", "bisect")
def a_search_in_an_engine_for_a_device() -> None:
    as_rtx_bundle(Path("bundle"), Path("device"))
    text = Path("model.py").read_text().replace("manual_seed(0)", "manual_seed(2)")
    Path("other.py").write_text(text)
    command("check", "device", "other.py", "--bisect")


@case("InputError", "run")
def values_that_the_graph_refuses() -> None:
    body = "return self.table(ids - 1)"
    inputs = "(torch.tensor([1, 2, 3]),)"
    net(body, arguments="ids", inputs=inputs, init="self.table = nn.Embedding(4, 2)")
    build()
    with aotc.load("out") as engine:
        engine.run(np.array([1, 2, 0]))
