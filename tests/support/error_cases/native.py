"""What goes wrong in the child process, and bugs of aotc."""

from __future__ import annotations

import os
import signal
from typing import Any

from aotc.child import Progress, run_in_child
from error_cases.registry import case


def crash(_: Any, progress: Progress) -> None:
    """End as native code does that divides by zero."""
    os.write(2, b"terminate called after throwing an instance of 'std::out_of_range'\n")
    progress("model.onnx: sizes n=0")
    os.kill(os.getpid(), signal.SIGFPE)


def fail(_: Any, progress: Progress) -> None:
    """Fail as our own code does not."""
    raise KeyError(f"oops {object()}")


@case("RefusedError", "native-crash")
def native_code_that_crashes() -> None:
    run_in_child("error_cases.native:crash", {})


@case("InternalError", "internal")
def a_bug_in_the_child_process() -> None:
    run_in_child("error_cases.native:fail", {})


@case("InternalError", "internal")
def a_bug() -> None:
    raise KeyError(f"oops {object()}")
