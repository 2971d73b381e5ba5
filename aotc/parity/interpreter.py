"""Runs a ``torch.export`` program node by node and keeps what some of its nodes give."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from torch import fx  # noqa: TID253 - a subclass of torch's; only a search for a wrong value imports this file
from torch.export import ExportedProgram  # noqa: TID253
from torch.export.graph_signature import InputKind  # noqa: TID253


class _Recorder(fx.Interpreter):
    def __init__(self, program: ExportedProgram, wanted: Collection[fx.Node]) -> None:
        super().__init__(program.graph_module)
        self.found: dict[fx.Node, Any] = {}
        self._wanted = set(wanted)

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n in self._wanted:
            self.found[n] = result
            if len(self.found) == len(self._wanted):
                raise _Done
        return result


class _Done(BaseException):  # no error: everything that was wanted is there
    pass


def record(
    program: ExportedProgram, inputs: Sequence[Any], wanted: Collection[fx.Node]
) -> dict[fx.Node, Any]:
    """Return what the ``wanted`` nodes give; nothing behind the last of them runs.

    Args:
        program: Decomposed or not; its weights are used as they are.
        inputs: Tensors, one for each input of the user.
        wanted: Nodes of its graph.
    """
    recorder = _Recorder(program, wanted)
    given = iter(inputs)
    values = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values.append(next(given))
        else:
            target = str(spec.target)
            found = program.state_dict.get(target)
            values.append(program.constants[target] if found is None else found)
    with contextlib.suppress(_Done):
        recorder.run(*values, enable_io_processing=False)
    return recorder.found
