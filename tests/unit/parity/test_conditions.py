"""Sizes that the engine must refuse: from what eager refuses, and from guards beyond which it fails."""

from __future__ import annotations

from typing import Any

import pytest

from aotc.errors import InputError, RefusedError
from aotc.parity import stage
from aotc.parity.conditions import insisted, refuse_broken
from aotc.parity.golden import Reference
from aotc.parity.verdict import CaseVerdict, EngineVerdict, Outcome
from aotc.signature import Argument, Profile, Signature, TensorSpec
from aotc.tree import TensorLeaf

LEAF = TensorLeaf(name="x")


def signature(*guards: str, profiles: tuple[dict[str, Profile], ...] = ()) -> Signature:
    spec = TensorSpec(name="x", dtype="float32", shape=("a", "b"))
    return Signature(
        arguments=(Argument(name="x", kind="positional", tree=LEAF),),
        inputs=(spec,),
        outputs=(spec.model_copy(update={"name": "y"}),),
        result=TensorLeaf(name="y"),
        guards=guards,
        profiles=profiles,
    )


def reference(a: int, b: int, *, kind: str = "size", refused: bool = False) -> Reference:
    outputs, refusal = (None, "raises ValueError") if refused else ("o.npz", None)
    sizes = {"a": a, "b": b}
    return Reference(
        label=f"{kind} {a} {b}", kind=kind, sizes=sizes, inputs="i.npz", outputs=outputs, refusal=refusal
    )


def test_the_fewest_dims_that_tell_refused_from_taken_sizes_apart() -> None:
    cases = [reference(3, 4, kind="given"), reference(1, 4), reference(3, 1), reference(1, 1, refused=True)]
    assert insisted(signature(), cases) == ("Ne(a*b, 1)",)
    column = [reference(3, 4, kind="given"), reference(1, 4), reference(3, 1, refused=True)]
    assert insisted(signature(), [*column, reference(1, 1, refused=True)]) == ("Ne(b, 1)",)


def test_a_guard_of_the_trace_tells_other_sizes_apart() -> None:
    cases = [reference(4, 4, kind="given"), reference(5, 4, refused=True), reference(2, 9)]
    assert insisted(signature("Eq(Mod(a, 2), 0)", "b > 3"), cases) == ("Eq(Mod(a, 2), 0)",)


def test_nothing_is_learned_where_no_condition_tells_them_apart() -> None:
    cases = [reference(3, 4, kind="given"), reference(3, 5, refused=True), reference(7, 5)]
    assert insisted(signature(), cases) == ()


def verdicts(*cases: CaseVerdict) -> list[EngineVerdict]:
    return [EngineVerdict(engine="model.onnx", cases=cases)]


def failing(of: Reference, outcome: Outcome = "engine raises") -> CaseVerdict:
    return CaseVerdict(label=of.label, sizes=of.sizes, outcome=outcome)


def test_a_failure_beyond_a_guard_becomes_a_refused_size() -> None:
    given, beyond = reference(4, 4, kind="given"), reference(5, 4)
    engines, conditions = refuse_broken(signature("Eq(a, b)"), [given, beyond], verdicts(failing(beyond)))
    assert conditions == ("Eq(a, b)",)
    assert engines[0].cases[0].outcome == "refused size"
    refusing = signature("Eq(a, b)").with_conditions(conditions)
    assert refusing.allows({"a": 4, "b": 4})
    import numpy as np

    with pytest.raises(InputError, match="not valid for a=5, b=4"):
        refusing.check({"x": np.zeros((5, 4), np.float32)})


@pytest.mark.parametrize("why", ["a profile promises the size", "the source gives such inputs", "no guard"])
def test_other_failures_stay_failures(why: str) -> None:
    given, beyond = reference(4, 4, kind="given"), reference(5, 4)
    profiles: tuple[dict[str, Profile], ...] = ()
    guards = ("Eq(a, b)",)
    if why == "a profile promises the size":
        profiles = ({"a": Profile(min=1, opt=4, max=8)},)
    elif why == "the source gives such inputs":
        given = reference(3, 4, kind="given")
    else:
        guards = ()
    described = signature(*guards, profiles=profiles)
    engines, conditions = refuse_broken(described, [given, beyond], verdicts(failing(beyond)))
    assert conditions == ()
    assert engines[0].cases[0].outcome == "engine raises"


def test_an_engine_that_answers_wrongly_beyond_a_guard_fails() -> None:
    given, beyond = reference(4, 4, kind="given"), reference(5, 4)
    engines, conditions = refuse_broken(
        signature("Eq(a, b)"), [given, beyond], verdicts(failing(beyond, "differs"))
    )
    assert conditions == ()
    assert not engines[0].passed


class _Contents:
    def model_dump(self, mode: str) -> dict[str, Any]:
        return {}


def crashing(at: str) -> Any:
    """Return a child that crashes at a case as long as it is asked to run it."""

    def child(_: str, payload: dict[str, Any], *args: Any) -> Any:
        labels = [r["label"] for r in payload["references"]]
        if at in labels:
            raise RefusedError(
                "native code crashed with SIGFPE", slug="native-crash", where=f"model.onnx: {at}"
            )
        cases = tuple(CaseVerdict(label=label, sizes={}, outcome="equal") for label in labels)
        return [EngineVerdict(engine="model.onnx", cases=cases).model_dump(mode="json")]

    return child


def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, cases: list[Reference], at: str) -> Any:
    monkeypatch.setattr(stage, "run_in_child", crashing(at))
    return stage.judge_engines(tmp_path, _Contents(), tmp_path, cases, 1, lambda _: None)  # type: ignore[arg-type]


def test_a_crash_at_an_empty_axis_is_a_refused_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    cases = [reference(3, 4, kind="given"), reference(0, 4, kind="zero"), reference(2, 4)]
    (engine,) = judged(monkeypatch, tmp_path, cases, "zero 0 4")
    assert [case.outcome for case in engine.cases] == ["equal", "refused size", "equal"]
    assert "SIGFPE" in engine.cases[1].detail


def test_a_crash_elsewhere_ends_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with pytest.raises(RefusedError, match="SIGFPE"):
        judged(monkeypatch, tmp_path, [reference(3, 4, kind="given"), reference(2, 4)], "size 2 4")
