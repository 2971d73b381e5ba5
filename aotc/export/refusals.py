"""What torch.export and the exporter raise, in the user's words: the cause and the line of the model."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path

from aotc.errors import RefusedError


def refusal_of_export(
    error: BaseException, where_op: Callable[[str], str | None] = lambda _: None
) -> RefusedError:
    """Turn an exception of torch.export or the exporter into a refusal that names the cause and the line.

    Args:
        error: The exception.
        where_op: Returns the line of the model's code that calls an operator, given its name.
    """
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    text = "\n".join(str(e) for e in chain)
    where = quoted_line(text) or traceback_line(chain[-1])
    if "data-dependent" in text:
        return RefusedError(
            f"data-dependent control flow: {_first_line(chain, 'data-dependent')}",
            slug="data-dependent",
            where=where,
            hint="use torch.where or torch.cond instead of a Python branch on a tensor's value",
        )
    if (missing := re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", text)) is not None:
        return RefusedError(
            f"the operator {missing[1]} has no translation to ONNX",
            slug="unsupported-operator",
            where=where_op(missing[1]),
            hint="write it with other operators, or compute it outside the model",
        )
    return RefusedError(
        f"torch.export cannot trace this model: {_first_line(chain)}", slug="export", where=where
    )


def _first_line(chain: list[BaseException], *needles: str) -> str:
    for error in reversed(chain):
        for line in str(error).splitlines():
            if line.strip() and (not needles or any(n in line for n in needles)):
                kind = "" if needles else f"{type(error).__name__}: "
                return re.sub(r" at 0x[0-9a-f]+", "", kind + line.strip())[:400]
    return type(chain[-1]).__name__


def quoted_line(text: str) -> str | None:
    """Return the innermost line of the user's code in a stack trace that is given as text."""
    return _innermost([(file, int(line)) for file, line in re.findall(r'File "([^"]+)", line (\d+)', text)])


def traceback_line(error: BaseException) -> str | None:
    """Return the innermost line of the user's code in the traceback of ``error``."""
    frames = traceback.walk_tb(error.__traceback__)
    return _innermost([(frame.f_code.co_filename, line) for frame, line in frames])


def current_line() -> str | None:
    """Return the innermost line of the user's code that is running now."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
    return _innermost(frames[::-1])


def _innermost(frames: list[tuple[str, int]]) -> str | None:
    own = [(file, line) for file, line in frames if is_users(file)]
    return f"{own[-1][0].rsplit('/', 1)[-1]}:{own[-1][1]}" if own else None


def is_users(file: str) -> bool:
    """Return whether ``file`` is the model's code and not torch's, the exporter's or ours."""
    return not is_ours(file) and not file.startswith(("<", *_exporters_folders()))


def is_ours(file: str) -> bool:
    """Return whether ``file`` belongs to aotc, whose flat wrapper is in every stack trace."""
    return file.startswith(f"{Path(__file__).parents[1]}/")


@functools.cache
def _exporters_folders() -> tuple[str, ...]:
    import onnxscript
    import torch

    return tuple(f"{Path(str(package.__file__)).parent}/" for package in (torch, onnxscript))
