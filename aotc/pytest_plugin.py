"""The pytest plugin: ``aotc_parity`` builds a model inside a test, which fails where the engine differs.

Every pytest of an environment that has aotc loads this module, so it imports nothing but pytest until a test
asks for the fixture.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from aotc.parity.failure import ParityError
    from aotc.parity.summary import OutputSummary
    from aotc.parity.verdict import AnyVerdict, Verdict
    from aotc.parts import PartsResult
    from aotc.seal import BuildResult

_MARK = "aotc_target"


class Parity(Protocol):
    """What the fixture ``aotc_parity`` is."""

    def __call__(
        self, module: Any, inputs: Any = None, *, target: str | None = None, **given: Any
    ) -> BuildResult | PartsResult:
        """Build a model and compare it with eager, as ``aotc.build`` does.

        Args:
            module: The eager module in eval mode, a dict of several, or the path of a source file.
            inputs: Example inputs: a tuple of arguments or a dict of keyword arguments.
            target: What the engine runs on; default: that of the mark ``aotc_target``, else ort-cpu.
            **given: What else ``aotc.build`` takes: dynamic_shapes, profiles, more_inputs, tolerance ...

        Returns:
            The bundle, in the test's ``tmp_path``, with its verdict.

        Raises:
            AssertionError: The engine differs from eager; the text has the figures of every output that does.
            AotcError: As ``aotc.build``. Where something is missing the test is skipped instead.
        """


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, so that ``--strict-markers`` accepts it."""
    config.addinivalue_line(
        "markers", f"{_MARK}(*targets): what aotc_parity builds for; the test runs once for each target"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that has the mark once for each of its targets."""
    mark = metafunc.definition.get_closest_marker(_MARK)
    if mark is not None and _MARK in metafunc.fixturenames:
        metafunc.parametrize(_MARK, mark.args)


@pytest.fixture
def aotc_target() -> str:
    """Return what engines are built for in a test without the mark ``aotc_target``."""
    return "ort-cpu"


@pytest.fixture
def aotc_parity(request: pytest.FixtureRequest, tmp_path: Path, aotc_target: str) -> Parity:
    """Return a function that builds a model and fails the test if the engine differs from eager."""
    calls = 0

    def parity(
        module: Any, inputs: Any = None, *, target: str | None = None, **given: Any
    ) -> BuildResult | PartsResult:
        __tracebackhide__ = True
        nonlocal calls
        calls += 1
        chosen, out = target or aotc_target, tmp_path / f"aotc-{calls}"
        from aotc.api import build
        from aotc.errors import AotcError, MissingError
        from aotc.parity.failure import ParityError

        try:
            result = build(module, inputs, target=chosen, out=out, **given)
        except ParityError as error:
            _record(request.node, chosen, error.verdict)
            raise AssertionError(_failure_text(error, request.node.nodeid)) from None
        except MissingError as error:
            pytest.skip(f"{chosen} cannot run here: {error.render()}")
        except AotcError as error:
            raise error.with_traceback(None) from None  # the text says all; the frames are ours
        _record(request.node, chosen, result.verdict)
        return result

    return parity


def _record(node: pytest.Item, target: str, verdict: AnyVerdict) -> None:
    """Add the worst figures of each output to the test's properties, which ``--junitxml`` writes."""
    from aotc.text import plain

    found: list[tuple[str, object]] = [("aotc.target", target)]
    for part, graph, each in _outputs(verdict):
        name = plain(f"aotc.{part}{each.name}")
        figures = {"max_abs": each.worst.max_abs, "bound": each.worst.bound, "ratio": each.worst.ratio}
        found += [(f"{name}.{key}", value) for key, value in figures.items()]
        found += [(f"{name}.cases", each.cases), (f"{name}.level", graph.level)]
    node.user_properties += found


def _failure_text(error: ParityError, test: str) -> str:
    """Return the error, every output that differs where it differs most, and what runs it again."""
    from aotc.text import plain

    lines = [error.render()]
    for part, _, each in _outputs(error.verdict):
        if not each.passed:
            figures = f"{each.worst.reason}; bound {each.worst.bound}"
            lines.append(f"  output {part}{each.name} on {each.case} ({each.engine}): {figures}")
    return plain("\n".join([*lines, f"  again: pytest {shlex.quote(test)}"]), keep="\n")


def _outputs(verdict: AnyVerdict) -> Iterator[tuple[str, Verdict, OutputSummary]]:
    """Yield a prefix of names, the verdict and the worst figures of every output of every part."""
    from aotc.parity.summary import summarise
    from aotc.parity.verdict import by_part

    for part, graph in by_part(verdict).items():
        for each in summarise(graph.engines):
            yield f"{part}." if part else "", graph, each
