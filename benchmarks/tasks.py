"""What is measured in a process of its own: ``python tasks.py TASK ARGUMENT`` prints one JSON object."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tree_memory import anonymous_bytes


def export(source: str) -> dict[str, float]:
    """Time the bare export of a source file, to a file that is thrown away."""
    from aotc.cli.rivals import plain_export
    from aotc.export.call import bind
    from aotc.export.source import load_source

    loaded = load_source(Path(source))
    module = loaded.model()
    call = bind(module, loaded.inputs)
    with tempfile.TemporaryDirectory(prefix="aotc-export-") as folder:
        start = time.perf_counter()
        plain_export(module, call, loaded, Path(folder))
        return {"seconds": time.perf_counter() - start}


def load_bundle(directory: str) -> dict[str, float]:
    """Time verify, create and first run of a bundle."""
    import onnxruntime  # noqa: F401 - the import is not part of the load

    from aotc.bundle import open_bundle
    from aotc.runtime import load_opened

    feeds = _example(Path(directory))
    start = time.perf_counter()
    with open_bundle(directory) as opened:
        verified = time.perf_counter()
        engine = load_opened(opened)
        del opened
    created = time.perf_counter()
    engine.run_flat(feeds)
    end = time.perf_counter()
    parts = {"verify": verified - start, "create": created - verified, "first run": end - created}
    return {**parts, "seconds": end - start, "anonymous": anonymous_bytes()}


def load_plain(directory: str, *, parallel: bool = False) -> dict[str, float]:
    """Time create and first run of the same engine file in a plain ONNX Runtime session, by path."""
    import onnxruntime

    feeds = _example(Path(directory))
    path = Path(directory) / _engine_file(Path(directory))
    options = onnxruntime.SessionOptions()
    if parallel:
        options.add_session_config_entry("session.prepack.enable_parallel", "1")
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(str(path), options)
    created = time.perf_counter()
    session.run(None, feeds)
    end = time.perf_counter()
    parts = {"create": created - start, "first run": end - created}
    return {**parts, "seconds": end - start, "anonymous": anonymous_bytes()}


def load_parallel(directory: str) -> dict[str, float]:
    """Time the plain session with weights packed by all threads at once."""
    return load_plain(directory, parallel=True)


def _example(directory: Path) -> dict[str, Any]:
    from aotc.parity.golden import read_inputs

    description = _description(directory)
    names = tuple(spec["name"] for spec in description["signature"]["inputs"])
    return read_inputs(directory / description["golden"][0]["inputs"], names)


def _engine_file(directory: Path) -> str:
    """Return the machine-specific engine file, which this machine has just built."""
    engines = _description(directory)["engines"]
    return str(next(e["file"] for e in engines if e["kind"] == "ort-optimised"))


def _description(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / "bundle.json").read_bytes())
    return content


TASKS: dict[str, Callable[[str], dict[str, float]]] = {
    task.__name__: task for task in (export, load_bundle, load_plain, load_parallel)
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](sys.argv[2])))
