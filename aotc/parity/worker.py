"""The check stage's child process: loads each engine file as the fleet would and judges it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from aotc.bundle import Contents
from aotc.child import Progress
from aotc.parity.gate import judge
from aotc.parity.golden import Reference
from aotc.parity.verdict import EngineVerdict
from aotc.runtime.unsealed import load_unsealed


def check_engines(payload: dict[str, Any], progress: Progress) -> Any:
    """Judge every engine file of an unsealed bundle that ONNX Runtime runs.

    Args:
        payload: ``directory`` of the engine files, ``contents`` of the bundle to be, ``cases`` (the folder of
            the case files), ``references`` and ``threads``.
        progress: Told each case.

    Returns:
        A list of engine verdicts as JSON values.
    """
    contents = Contents.model_validate(payload["contents"])
    references = [Reference.model_validate(item) for item in payload["references"]]
    verdicts = []
    for entry in contents.runnable:
        with load_unsealed(Path(payload["directory"]), contents, entry, threads=payload["threads"]) as engine:
            cases = judge(
                engine.run_flat,
                references,
                Path(payload["cases"]).joinpath,
                contents.signature,
                functools.partial(_tell, progress, entry.file),
            )
        verdicts.append(EngineVerdict(engine=entry.file, cases=cases).model_dump(mode="json"))
    return verdicts


def _tell(progress: Progress, file: str, label: str) -> None:
    progress(f"{file}: {label}")
