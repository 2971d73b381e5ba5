"""What a case is, and what cases use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from aotc.cli.main import cli

HEADER = "import torch\nfrom torch import nn\n\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """A situation, the class and the name of the error that it ends in, and the function that makes it.

    ``make`` runs in an empty working directory that has the bundle of the tiny model and its source.
    """

    title: str
    kind: str
    slug: str
    make: Callable[[], object]


CASES: dict[str, Case] = {}


def case(kind: str, slug: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Register a function, whose name is the title."""

    def register(make: Callable[[], object]) -> Callable[[], object]:
        title = make.__name__.replace("_", " ")
        assert title not in CASES, title
        CASES[title] = Case(title, kind, slug, make)
        return make

    return register


def command(*args: str) -> None:
    """Run a command line; its error comes out as it is."""
    with cli.make_context("aotc", list(args)) as context:
        cli.invoke(context)


def build(*args: str) -> None:
    """Build ``net.py``, or the source given first."""
    command("build", *(args or ("net.py",)), "-o", "out")


def net(
    body: str,
    *,
    inputs: str = "(torch.ones(2, 3),)",
    init: str = "",
    arguments: str = "x",
    made: str = "Net().eval()",
    end: str = "",
) -> None:
    """Write ``net.py``: a module whose forward has the lines ``body``."""
    lines = ["class Net(nn.Module):"]
    if init:
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f"        {line}" for line in init.splitlines()]
    lines += [f"    def forward(self, {arguments}):", *(f"        {line}" for line in body.splitlines())]
    lines += ["", f"def model():\n    return {made}", "", f"def inputs():\n    return {inputs}", "", end]
    Path("net.py").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
