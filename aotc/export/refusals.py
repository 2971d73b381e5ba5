"""What torch.export and the exporter raise, in the user's words: whose fault, the cause and the line."""

from __future__ import annotations

import functools
import re
import traceback
from collections.abc import Callable
from pathlib import Path

from aotc.errors import RefusedError


def refusal_of_export(error: BaseException) -> RefusedError:
    """Turn an exception of torch.export into a refusal that names the cause and the line."""
    chain = _chain(error)
    text = "\n".join(str(e) for e in chain)
    where = quoted_line(text) or traceback_line(chain[-1])
    if "data-dependent" in text:
        return RefusedError(
            f"data-dependent control flow: {_first_line(chain, 'data-dependent')}",
            slug="data-dependent",
            where=where,
            hint="use torch.where or torch.cond instead of a Python branch on a tensor's value",
        )
    return RefusedError(
        f"torch.export cannot trace this model: {_first_line(chain)}",
        slug="export",
        where=where,
        hint="change that line; aotc --debug shows what torch.export says in full",
    )


def refusal_of_exporter(error: BaseException, where_op: Callable[[str], str | None]) -> RefusedError:
    """Turn an exception of the exporter, on a program that torch.export traced, into a refusal.

    Args:
        error: The exception.
        where_op: Returns the line of the model's code that calls an operator, given its name.
    """
    chain = _chain(error)
    text = "\n".join(str(e) for e in chain)
    if (missing := re.search(r"No ONNX function found for <OpOverload\(op='([\w.]+)'", text)) is not None:
        return RefusedError(
            f"the operator {missing[1]} has no translation to ONNX",
            slug="unsupported-operator",
            where=where_op(missing[1]),
            hint="write it with other operators, or compute it outside the model",
        )
    node = re.search(r"Error when translating node .*?call_function\[target=torch\.ops\.([\w.]+)\]", text)
    what = f"the operator {node[1]}" if node is not None else "this model"
    frames = traceback.walk_tb(chain[-1].__traceback__)
    ours = any(is_translation(frame.f_code.co_filename) for frame, _ in frames)
    return RefusedError(
        f"{'aotc' if ours else 'torch.onnx'} cannot translate {what} to ONNX: {_first_line(chain)}",
        slug="translation",
        where=(where_op(node[1]) if node is not None else None) or quoted_line(text),
        hint="the model is not at fault: report it, and write that line with other operators meanwhile",
    )


def _chain(error: BaseException) -> list[BaseException]:
    """Return the exception and what it came from, the origin last."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _first_line(chain: list[BaseException], *needles: str) -> str:
    for error in reversed(chain):
        for line in str(error).splitlines():
            if line.strip() and (not needles or any(n in line for n in needles)):
                kind = "" if needles else f"{type(error).__name__}: "
                return (kind + line.strip())[:400]
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


def is_translation(file: str) -> bool:
    """Return whether ``file`` is one of our own translations of operators."""
    return file.startswith(f"{Path(__file__).parent}/translations/")


def is_ours(file: str) -> bool:
    """Return whether ``file`` belongs to aotc, whose flat wrapper is in every stack trace."""
    return file.startswith(f"{Path(__file__).parents[1]}/")


@functools.cache
def _exporters_folders() -> tuple[str, ...]:
    import onnxscript
    import torch

    return tuple(f"{Path(str(package.__file__)).parent}/" for package in (torch, onnxscript))
