"""``aotc check --bisect``: from a failed verdict to the one graph that is searched, and its inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from aotc.bisect import bisect
from aotc.bundle import OpenBundle, OpenParts, beside, open_any
from aotc.cli.arrays import read_npz
from aotc.cli.output import StageProgress
from aotc.config import Options
from aotc.errors import UsageError
from aotc.export.source import PartsSource
from aotc.parity.failure import failed_inputs
from aotc.parity.findings import AnyFinding
from aotc.parity.verdict import AnyVerdict, PartsVerdict
from aotc.sources import AnySource, one_graph
from aotc.text import shown_path

Mode = Literal["values", "passes"]


def search(
    mode: Mode,
    verdict: AnyVerdict,
    directory: Path | None,
    source: AnySource | PartsSource,
    inputs: Path | None,
    options: Options,
    progress: StageProgress,
) -> AnyFinding:
    """Return where the worst case of a failed check went wrong; of parts, that of the first that failed.

    Args:
        mode: What is searched: the values of the engine, or the stages of a build.
        verdict: A negative one.
        directory: The bundle that was checked; None if a build of the source was.
        source: Says what is right.
        inputs: The .npz that was checked; None if all cases of the gate were.
        options: Of the build, where one is needed.
        progress: Told what is being looked at.

    Raises:
        UsageError: Only the source's metric failed, or what failed does not show again.
        AotcError: As ``aotc.bisect``.
    """
    part = verdict.failed if isinstance(verdict, PartsVerdict) else None
    judged = verdict.with_failed_case
    if judged is None:
        raise UsageError("no case fails, only accuracy(): there is no value to search for", slug="bisect")
    graph = source.parts[part] if part is not None and isinstance(source, PartsSource) else one_graph(source)
    with _open(directory, part) as bundle:
        if bundle is not None:
            inputs = inputs or failed_inputs(bundle.path)
            options = options.model_copy(update={"disable": _disabled(bundle)})
        assert inputs is not None  # without a bundle there is nothing else to check
        saved = Path(shown_path(beside(bundle.path, "bisect"))) if bundle else inputs.with_suffix(".bisect")
        found = bisect(
            mode, graph, judged, read_npz(inputs), options, bundle=bundle, saved=saved, progress=progress
        )
    if found is None and mode == "passes" and directory is not None:
        raise UsageError(
            "a build of the source as it is now is right after every stage",
            slug="bisect",
            where=str(inputs),
            hint="the bundle is of another source or version: --bisect alone says where it differs",
        )
    if found is None:
        raise UsageError(
            "run again part by part, the graph agrees everywhere",
            slug="bisect",
            where=str(inputs),
            hint="the difference is not the same in each run, or needs the whole graph to show",
        )
    return found


@contextlib.contextmanager
def _open(directory: Path | None, part: str | None) -> Iterator[OpenBundle | None]:
    if directory is None:
        yield None
        return
    with open_any(directory) as opened:
        if isinstance(opened, OpenParts):
            assert part is not None
            yield opened.parts[part]
        else:
            yield opened


def _disabled(bundle: OpenBundle) -> tuple[str, ...]:
    """Return the passes that the bundle was built without."""
    names = bundle.description.options.get("disable") or ()
    assert isinstance(names, list | tuple)
    return tuple(map(str, names))
