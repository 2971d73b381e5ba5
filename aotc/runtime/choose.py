"""Chooses which engine of a bundle this machine runs, and says why."""

from __future__ import annotations

from aotc.bundle import Description, EngineEntry, Requirements
from aotc.errors import CompatibilityError

TARGET = "ort-cpu"


def other_runtime(description: Description) -> str | None:
    """Return what to do with an engine that no runtime of ours runs; None if the bundle has none."""
    files = ", ".join(e.file for e in description.engines if e not in description.runnable)
    return f"give {files} to the runtime of {description.target.partition(':')[0]}" if files else None


def choose(description: Description, here: Requirements) -> tuple[EngineEntry, str]:
    """Return the engine for a machine with the runtime and CPU ``here``, and the reason in one line.

    Raises:
        CompatibilityError: The bundle is for another target, or has only machine-specific engines and none is
            for this machine.
    """
    if description.target != TARGET:
        raise CompatibilityError(
            f"the bundle is for {description.target}; this runtime runs {TARGET}",
            hint=other_runtime(description),
        )
    misfits: list[str] = []
    for engine in description.runnable:
        if isinstance(engine.requires, Requirements):
            if engine.requires == here:
                return engine, f"{engine.kind}: same onnxruntime {here.onnxruntime} and CPU flags"
            misfits.append(_difference(engine.requires, here))
    reason = misfits[0] if misfits else "the bundle's only engine"
    for engine in description.engines:
        if engine.requires is None:
            return engine, f"{engine.kind}: {reason}"
    raise CompatibilityError(
        f"no engine of this bundle runs on this machine: {reason}", hint="build with a portable engine"
    )


def _difference(built: Requirements, here: Requirements) -> str:
    if built.onnxruntime != here.onnxruntime:
        return f"built with onnxruntime {built.onnxruntime}, here {here.onnxruntime}"
    missing = sorted(set(built.cpu_flags) - set(here.cpu_flags))
    extra = sorted(set(here.cpu_flags) - set(built.cpu_flags))
    if missing:
        return f"built with CPU flags that this machine lacks: {', '.join(missing)}"
    return f"built without CPU flags that this machine has: {', '.join(extra)}"
