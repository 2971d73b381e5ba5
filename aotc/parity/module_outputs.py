"""Where ``torch.export`` itself went wrong: modules whose result its program computes nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.parity.findings import Finding
from aotc.parity.inner_values import ProgramValues
from aotc.parity.metrics import OutputFigures, compare
from aotc.parity.reference import Eager
from aotc.parity.tolerance import Tolerance

if TYPE_CHECKING:
    import torch

Array = np.ndarray[Any, Any]
_SHARE = 1e-4
"""Both sides run the same kernels in float32: a result is found again to within this share of its largest."""


def first_wrong_module(eager: Eager, program: ProgramValues, feeds: Mapping[str, Array]) -> Finding | None:
    """Return the first module, in the order in which they finish, whose result the program does not have.

    Where it has that of each, it is the model itself that makes something else of them.

    Args:
        eager: Runs the module.
        program: The program that differs from it.
        feeds: The inputs on which it does.
    """
    for path, value in _outputs(eager, feeds):
        if names := program.names_in(path, value.ndim):
            figures = _compare(value, program.run(feeds, names))
            if not any(each.passed for each in figures):
                return _finding(program, path, min(figures, key=_distance))
    outputs = {name: value for name, value in eager.run(feeds).items() if name in program.names}
    got = program.run(feeds, list(outputs))
    figures = [each for name, value in outputs.items() for each in _compare(value, {name: got[name]})]
    wrong = [each for each in figures if not each.passed]
    return _finding(program, "", wrong[0]) if wrong else None


def _compare(value: Array, found: Mapping[str, Array]) -> list[OutputFigures]:
    """Compare each of ``found`` with ``value``."""
    tolerance = Tolerance(_SHARE * float(np.abs(value).max(initial=0.0)), 0.0, "fallback")
    none = np.zeros(value.shape, bool)
    return [compare(name, array, value, tolerance, none) for name, array in found.items()]


def _finding(program: ProgramValues, module: str, figures: OutputFigures) -> Finding:
    return Finding(
        graph="torch.export",
        value=figures.name,
        module=module,
        op="what torch.export traced is not what eager runs",
        line=program.origin(figures.name).line,
        figures=figures,
    )


def _distance(figures: OutputFigures) -> float:
    return figures.ratio or float("inf")


def _outputs(eager: Eager, feeds: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Run eager and return the path and the tensors of the result of each inner module that ran."""
    import torch

    found: list[tuple[str, torch.Tensor]] = []

    def keep(path: str) -> Any:
        def hook(_module: torch.nn.Module, _args: Any, output: Any) -> None:
            leaves = torch.utils._pytree.tree_leaves(output)
            found.extend((path, leaf.clone()) for leaf in leaves if isinstance(leaf, torch.Tensor))

        return hook

    handles = [m.register_forward_hook(keep(path)) for path, m in eager.module.named_modules()]
    try:
        eager.run(feeds)
    finally:
        for handle in handles:
            handle.remove()
    floats = ((path, value) for path, value in found if path and value.is_floating_point())
    return ((path, np.asarray(value.detach().contiguous().numpy())) for path, value in floats)
