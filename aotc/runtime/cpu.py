"""What this machine's processor can do: machine-specific engines run only where they were made."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# x86 names, then those of 64-bit ARM. Kernels are chosen by these; other flags do not change a result.
_NAMES = {
    "f16c",
    "fma",
    "sse4_1",
    "sse4_2",
    "asimd",
    "asimddp",
    "asimdhp",
    "bf16",
    "fphp",
    "i8mm",
    "sme",
    "sme2",
}
_PREFIXES = ("amx", "avx", "sve")


@functools.cache
def cpu_flags() -> tuple[str, ...]:
    """Return the vector instruction sets of this processor, sorted; its architecture's name if unknown."""
    try:
        text = _CPUINFO.read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        return (platform.machine(),)
    return parse_flags(text) or (platform.machine(),)


def parse_flags(cpuinfo: str) -> tuple[str, ...]:
    """Return the vector instruction sets that every processor in a ``/proc/cpuinfo`` has, sorted."""
    found: set[str] | None = None
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags = {flag for flag in value.split() if flag in _NAMES or flag.startswith(_PREFIXES)}
            found = flags if found is None else found & flags
    return tuple(sorted(found or ()))
