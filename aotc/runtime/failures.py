"""ONNX Runtime's exceptions, and their texts as text."""

from __future__ import annotations

import functools
import re

from aotc import optional

_WITHOUT_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_WITHOUT_SOURCE = re.compile(r"/onnxruntime_src/\S+:\d+ .*?\)(?: const)?(?: \[with .*?\])? (?=\S)", re.DOTALL)
"""File, line and signature of the C++ function that a message begins with; it helps nobody here."""


@functools.cache
def runtime_failures() -> tuple[type[Exception], ...]:
    """Return every exception class that a call of ONNX Runtime may raise.

    Its own classes have no common base but ``Exception``; the Python wrapper raises the built-in ones, and a
    text that is not UTF-8 surfaces as ``UnicodeDecodeError``, a ``ValueError``.
    """
    state = optional.require("onnxruntime").capi.onnxruntime_pybind11_state
    own = [c for c in vars(state).values() if isinstance(c, type) and issubclass(c, Exception)]
    return (*own, RuntimeError, ValueError, TypeError)


def is_invalid_argument(error: Exception) -> bool:
    """Return whether ONNX Runtime blames the values it was given."""
    return type(error).__name__ == "InvalidArgument"


def text_of(error: Exception) -> str:
    """Return the text of an ONNX Runtime error, also one that holds bytes which are not UTF-8."""
    if isinstance(error, UnicodeDecodeError):
        text = error.object.decode("utf-8", errors="backslashreplace")
    else:
        text = str(error)
    return _WITHOUT_CODE.sub("", _WITHOUT_SOURCE.sub("", text)).strip()
