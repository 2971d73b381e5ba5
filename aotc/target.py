"""What an engine runs on, as text: ``ort-cpu``, or ``tensorrt-rtx:sm_86,sm_89`` with architectures."""

from __future__ import annotations

import dataclasses

TARGETS: dict[str, tuple[str, ...]] = {
    "ort-cpu": (),
    "tensorrt-rtx": ("sm_75", "sm_80", "sm_86", "sm_89", "sm_120", "sm_121"),
}
"""Every target with the architectures that it compiles for; none where it has no such choice."""
_UNSUPPORTED = {
    "sm_90": "TensorRT-RTX compiles for no data centre GPU of that generation (H100, H200)",
    "sm_100": "TensorRT-RTX compiles for no data centre GPU of that generation (B200)",
}


@dataclasses.dataclass(frozen=True)
class Target:
    """A target and the architectures to compile for, in the order of ``TARGETS``."""

    name: str
    architectures: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join(filter(None, (self.name, ",".join(self.architectures))))

    @property
    def executed(self) -> bool:
        """Return whether aotc runs the engines of this target; else their graph is all that is verified."""
        return self.name == "ort-cpu"


def parse_target(text: str) -> Target:
    """Return the target that ``text`` names.

    Raises:
        ValueError: There is no such target or architecture, or one is missing; says what there is.
    """
    name, colon, rest = text.partition(":")
    if name not in TARGETS:
        raise ValueError(f"there is no target '{name}'; targets: {', '.join(TARGETS)}")
    known = TARGETS[name]
    if not known and colon:
        raise ValueError(f"the target {name} has no architectures; write {name}")
    given = [each.strip() for each in rest.split(",")] if rest else []
    if known and not given:
        raise ValueError(
            f"the target {name} needs architectures, such as {name}:sm_86; known: {_list(known)}"
        )
    for each in given:
        if each not in known:
            reason = _UNSUPPORTED.get(each, "unknown architecture")
            raise ValueError(f"{name} cannot compile for '{each}': {reason}; known: {_list(known)}")
    return Target(name, tuple(each for each in known if each in given))


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)
