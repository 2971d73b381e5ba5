"""JUnit XML of a verdict: one test case for each comparison, with its figures as properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite

from aotc.errors import AotcError, VerdictError
from aotc.parity.metrics import OutputFigures
from aotc.parity.verdict import Accuracy, AnyVerdict, CaseVerdict, EngineVerdict, by_part
from aotc.text import plain

_NONE: Mapping[str, Any] = MappingProxyType({})
_NOT_COMPARED = ("not compared", "refused size")


def write_junit(path: Path, command: str, verdict: AnyVerdict | None, error: AotcError | None) -> None:
    """Write what ``command`` found to ``path``; folders that are missing are made.

    A comparison is one output of one case on one engine file; a case without outputs (eager or the engine
    refuses it) is one as well, and so is the source's own metric. What ended the command without a comparison
    that failed is a test case of its own, so that the file is red if and only if the command is.

    Args:
        path: The file.
        command: As the user calls it: ``aotc build model.py``.
        verdict: All figures, if it came to that.
        error: What ended the command, if anything did.
    """
    suites = list(_suites(command, verdict, error)) if verdict is not None else []
    if error is not None and not any(suite.failures for suite in suites):
        suites.append(_suite(command, [_of_error(command, error)]))
    document = JUnitXml(plain(command))
    for suite in suites:
        document.add_testsuite(suite)
    document.update_statistics()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        document.write(file)


def _suites(command: str, verdict: AnyVerdict, error: AotcError | None) -> Iterator[TestSuite]:
    advice = f"\n\n{error.render()}" if error is not None else ""
    for part, each in by_part(verdict).items():
        for engine in each.engines:
            name = f"{part}/{engine.engine}" if part else engine.engine
            cases = list(_comparisons(name, engine, each.level, advice))
            yield _suite(f"{command}: {name}", cases, each.environment)
    if verdict.accuracy is not None:
        yield _suite(f"{command}: accuracy", [_of_metric(verdict.accuracy, advice)])


def _suite(name: str, cases: list[TestCase], properties: Mapping[str, Any] = _NONE) -> TestSuite:
    suite = TestSuite(plain(name))
    _add_properties(suite, properties)
    suite.add_testcases(cases)
    return suite


def _comparisons(name: str, engine: EngineVerdict, level: str, advice: str) -> Iterator[TestCase]:
    for case in engine.cases:
        if case.outcome not in ("equal", "differs"):
            yield _of_refusal(name, case, level, advice)
            continue
        for figures in case.outputs:
            yield _of_figures(name, case, figures, level, advice)


def _of_figures(name: str, case: CaseVerdict, figures: OutputFigures, level: str, advice: str) -> TestCase:
    measured = figures.model_dump(exclude={"name", "passed", "reason"}, exclude_none=True)
    measured |= {"bound": figures.bound, "level": level}
    found = _case(name, f"{figures.name} on {case.label}", measured)
    if not figures.passed:
        text = f"{figures.name}: {figures.reason}"
        found.result = _result(Failure, "differs", text, text + advice)
    return found


def _of_refusal(name: str, case: CaseVerdict, level: str, advice: str) -> TestCase:
    found = _case(name, case.label, {"outcome": case.outcome, "level": level})
    text = f"{case.outcome}: {case.detail}"
    if case.outcome in _NOT_COMPARED:
        found.result = _result(Skipped, case.outcome, text, text)
    elif not case.passed:
        found.result = _result(Failure, case.outcome, text, text + advice)
    return found


def _of_metric(metric: Accuracy, advice: str) -> TestCase:
    found = _case("accuracy", "accuracy()", metric.model_dump())
    if not metric.passed:
        text = f"{metric.engine:.6g} on the engine, {metric.eager:.6g} on eager; {metric.limit:g} is allowed"
        found.result = _result(Failure, "accuracy", text, text + advice)
    return found


def _of_error(command: str, error: AotcError) -> TestCase:
    found = _case("aotc", command, {})
    kind = Failure if isinstance(error, VerdictError) else Error
    found.result = _result(kind, error.name, error.message, error.render())
    return found


def _case(suite: str, name: str, properties: Mapping[str, Any]) -> TestCase:
    case = TestCase(plain(name), plain(suite))
    _add_properties(case, properties)
    return case


def _add_properties(element: TestSuite | TestCase, properties: Mapping[str, Any]) -> None:
    if properties:
        listed = Properties()
        for key, value in properties.items():
            text = str(list(value)) if isinstance(value, tuple) else str(value)
            listed.add_property(Property(plain(key), plain(text)))
        element.append(listed)


def _result(kind: type[Any], type_: str, message: str, text: str) -> Any:
    """Return a failure, an error or a skip. XML cannot carry most control characters: none is left."""
    result = kind(plain(message), plain(type_))
    result.text = plain(text, keep="\n")
    return result
