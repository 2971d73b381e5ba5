from __future__ import annotations

import platform
from pathlib import Path

import pytest

from aotc.runtime import cpu

X86 = """processor : 0
flags\t\t: fpu sse2 sse4_2 avx avx2 fma avx512f avx512_vnni amx_int8 aes
processor : 1
flags\t\t: fpu smep sse2 sse4_2 avx avx2 fma aes
"""
ARM = "Features\t: fp asimd asimddp aes sve i8mm bf16\n"


def test_only_what_every_processor_has_counts() -> None:
    assert cpu.parse_flags(X86) == ("avx", "avx2", "fma", "sse4_2")


def test_arm() -> None:
    assert cpu.parse_flags(ARM) == ("asimd", "asimddp", "bf16", "i8mm", "sve")


def test_a_machine_that_does_not_say_is_its_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, text in ((tmp_path / "cpuinfo", "model name : unknown\n"), (tmp_path / "none", None)):
        if text is not None:
            path.write_text(text)
        cpu.cpu_flags.cache_clear()
        monkeypatch.setattr(cpu, "_CPUINFO", path)
        assert cpu.cpu_flags() == (platform.machine(),)
    cpu.cpu_flags.cache_clear()


def test_this_machines_flags_are_sorted() -> None:
    assert cpu.cpu_flags()
    assert list(cpu.cpu_flags()) == sorted(set(cpu.cpu_flags()))
