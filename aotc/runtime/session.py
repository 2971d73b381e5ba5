"""Makes an ONNX Runtime session out of bytes in memory, and out of nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aotc import optional
from aotc.errors import AotcError, CompatibilityError, InputError, IntegrityError
from aotc.runtime.failures import is_invalid_argument, runtime_failures, text_of
from aotc.signature import Signature, TensorSpec

_PROVIDERS = ["CPUExecutionProvider"]
_QUIET = 4  # errors come as exceptions with the same text; the log would print them a second time
_NOWHERE = "/dev/null/nowhere"

_DTYPES = {
    "bool": "bool",
    "float": "float32",
    "double": "float64",
    **{name: name for name in ("float16", "bfloat16", "int8", "int16", "int32", "int64")},
    **{name: name for name in ("uint8", "uint16", "uint32", "uint64")},
}


def create_session(graph: memoryview, weights: Mapping[str, memoryview], *, threads: int | None) -> Any:
    """Return the ``onnxruntime.InferenceSession`` of an engine.

    The session borrows the memory of ``weights``: keep it alive for as long as the session.

    Args:
        graph: The engine file.
        weights: Every file that its external initialisers lie in, by location.
        threads: Threads for one operator; None leaves the choice to ONNX Runtime.

    Raises:
        MissingError: onnxruntime is not installed.
        CompatibilityError: ONNX Runtime cannot load this engine, or not on the CPU.
    """
    ort = optional.require("onnxruntime")
    options = _options(ort, threads)
    if weights:
        sizes = [buffer.nbytes for buffer in weights.values()]
        options.add_external_initializers_from_files_in_memory(list(weights), list(weights.values()), sizes)
    try:
        session = ort.InferenceSession(bytes(graph), options, providers=_PROVIDERS, enable_fallback=0)
    except runtime_failures() as error:
        raise CompatibilityError(
            f"onnxruntime {ort.__version__} cannot load this engine: {text_of(error)}",
            hint="build the bundle again for this version, or install the one in its description",
        ) from error
    if (found := session.get_providers()) != _PROVIDERS:
        raise CompatibilityError(f"the session runs on {', '.join(found)} instead of {_PROVIDERS[0]}")
    return session


def run_once(
    graph: bytes,
    weights: Mapping[str, memoryview],
    feeds: Mapping[str, np.ndarray[Any, Any]],
    *,
    threads: int | None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a graph that is no whole engine, once, exactly as an engine runs; return its outputs by name.

    Args:
        graph: An ONNX model; of ``feeds`` it gets the inputs that it has.
        weights: As for ``create_session``.
        feeds: Arrays by input name.
        threads: As for ``create_session``.

    Raises:
        AotcError: It does not load, or does not run on these inputs.
    """
    session = create_session(memoryview(graph), weights, threads=threads)
    names = [output.name for output in session.get_outputs()]
    try:
        results = session.run(names, {arg.name: feeds[arg.name] for arg in session.get_inputs()})
    except runtime_failures() as error:
        raise failed_run(error) from error
    return dict(zip(names, results, strict=True))


def failed_run(error: Exception) -> AotcError:
    """Return what the user is told of an exception that a run raised: whether the values were at fault."""
    kind = InputError if is_invalid_argument(error) else AotcError
    hint = "aotc check DIR SOURCE --inputs FILE.npz says whether forward takes these values"
    return kind(f"the engine failed: {text_of(error)}", slug="run", hint=hint)


def _options(ort: Any, threads: int | None) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = _QUIET
    if threads is not None:
        options.intra_op_num_threads = threads
    entry = options.add_session_config_entry
    # Use the given memory as it is; the default copies every initialiser once more.
    entry("session.use_external_initializer_file_buffers_directly", "1")
    # Packing the weights is the largest part of the time to load.
    entry("session.prepack.enable_parallel", "1")
    # A location that was not given would be opened in the working directory: let it lead nowhere.
    entry("session.model_external_initializers_file_folder_path", _NOWHERE)
    return options


def check_interface(session: Any, signature: Signature) -> None:
    """Compare the session's inputs and outputs with the signature's.

    Raises:
        IntegrityError: Another name, dtype or rank: the bundle's parts do not belong together.
    """
    for kind, found, specs in (
        ("inputs", session.get_inputs(), signature.inputs),
        ("outputs", session.get_outputs(), signature.outputs),
    ):
        names, expected = [arg.name for arg in found], [spec.name for spec in specs]
        if sorted(names) != sorted(expected):
            raise IntegrityError(f"the engine has the {kind} {names}, the signature {expected}")
        by_name = {arg.name: arg for arg in found}
        for spec in specs:
            _check_one(kind[:-1], by_name[spec.name], spec)


def _check_one(kind: str, found: Any, spec: TensorSpec) -> None:
    inner = found.type.removeprefix("tensor(").removesuffix(")")
    dtype = _DTYPES.get(inner, found.type)
    if dtype != spec.dtype:
        raise IntegrityError(f"the engine's {kind} '{spec.name}' is {dtype}, the signature says {spec.dtype}")
    # An output without a shape in the graph is shown as one without axes, so only axes that are there count.
    if found.shape and len(found.shape) != len(spec.shape):
        raise IntegrityError(
            f"the engine's {kind} '{spec.name}' has {len(found.shape)} axes, "
            f"the signature says {len(spec.shape)}"
        )
