"""What ``aotc bench`` times beside an engine: eager, and the plain export of the same source."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.cli.output import StageProgress, path_text
from aotc.config import Options
from aotc.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from aotc.bench import Feeds, Run
    from aotc.export.call import BoundCall
    from aotc.export.source import Source
    from aotc.signature import Signature

EAGER, PLAIN = "eager", "plain export"


@contextlib.contextmanager
def rivals(
    path: Path, signature: Signature, threads: int, options: Options, progress: StageProgress
) -> Iterator[dict[str, Run]]:
    """Give eager and the plain export of the source at ``path``."""
    import torch

    from aotc.export.call import bind
    from aotc.export.source import Source
    from aotc.sources import one_graph, open_source

    progress("eager", "")
    source = one_graph(open_source(path, options=options))
    if not isinstance(source, Source):
        raise UsageError("--vs takes a PyTorch source", hint="an ONNX file is a plain export itself")
    module = source.model()
    call = bind(module, source.inputs)
    if call.arguments != signature.arguments:
        raise UsageError(
            f"{path_text(path)} takes other arguments than the bundle",
            slug="source",
            hint="give the source it was built from",
        )
    usual_threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with tempfile.TemporaryDirectory(prefix="aotc-bench-") as scratch:
            progress(PLAIN, "")
            yield {
                EAGER: _eager_runner(module, call),
                PLAIN: _plain_runner(module, call, source, Path(scratch), threads),
            }
    finally:
        torch.set_num_threads(usual_threads)


def _eager_runner(module: nn.Module, call: BoundCall) -> Run:
    """Return a runner of ``module`` in inference mode, on tensors that share the inputs' memory."""
    import torch

    from aotc.export.call import rebuild

    def run(feeds: Feeds) -> object:
        args, kwargs = rebuild(call, {name: torch.from_numpy(value) for name, value in feeds.items()})
        with torch.inference_mode():
            return module(*args, **kwargs)

    return run


def _plain_runner(module: nn.Module, call: BoundCall, source: Source, folder: Path, threads: int) -> Run:
    """Return a runner of the plain export; if there is none, one that raises what stood in the way."""
    from aotc import optional

    try:
        path = plain_export(module, call, source, folder)
        ort = optional.require("onnxruntime")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the exporter raises many types; the row of the table says which
        return _raising(error)
    names = [item.name for item in session.get_inputs()]
    return lambda feeds: session.run(None, {name: feeds[name] for name in names})


def _raising(error: Exception) -> Callable[[Feeds], object]:
    def run(_: Feeds) -> object:
        raise error

    return run


def plain_export(module: nn.Module, call: BoundCall, source: Source, folder: Path) -> Path:
    """Export as a user without aotc would: ``torch.onnx.export`` with its defaults; return the file."""
    import torch

    from aotc.export.trace import quiet

    path = folder / "plain.onnx"
    with quiet():
        torch.onnx.export(
            module,
            call.bound.args,
            path,
            kwargs=call.bound.kwargs,
            dynamic_shapes=source.dynamic_shapes,
            input_names=list(call.flat),
            dynamo=True,
            optimize=True,
            verbose=False,
        )
    return path
