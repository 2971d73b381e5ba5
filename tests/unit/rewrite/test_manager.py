from __future__ import annotations

import dataclasses
from pathlib import Path

import onnx_ir as ir
import pytest
from aotc_passes.optimise import PASSES, FoldBatchNorm, FoldConstants

from aotc.errors import InternalError, RefusedError, VerdictError
from aotc.ir.scopes import SCOPES, STACK
from aotc.ir.text import from_text
from aotc.oracle import Oracle
from aotc.rewrite import (
    Checks,
    Context,
    DumpObserver,
    Pass,
    PassRecord,
    PassResult,
    Refusal,
    Relation,
    run_passes,
)
from aotc.rewrite.manager import Rejected

CONTEXT = Context(oracle=Oracle())
HEADER = '<ir_version: 10, opset_import: ["" : 24]>\n'
CHAIN = HEADER + "g (float[2] x) => (float[2] y) { a = Relu (x) b = Neg (a) y = Abs (b) }"


@dataclasses.dataclass(frozen=True)
class Rename(Pass):
    """Turn the operators ``old`` into ``new``."""

    old: str
    new: str

    def run(self, model: ir.Model, context: Context) -> PassResult:
        found = [node for node in model.graph if node.op_type == self.old]
        for node in found:
            node.op_type = self.new
        return PassResult(tuple(f"{self.old} -> {self.new}" for _ in found))


@dataclasses.dataclass(frozen=True)
class LoseNode(Pass):
    """Remove a node that is still needed."""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        model.graph.remove(model.graph.node(1))
        return PassResult(("lost",))


@dataclasses.dataclass(frozen=True)
class Raise(Pass):
    """Raise ``error``."""

    error: Exception

    def run(self, model: ir.Model, context: Context) -> PassResult:
        raise self.error


@dataclasses.dataclass(frozen=True)
class OnlyRefuse(Pass):
    """Change nothing."""

    def run(self, model: ir.Model, context: Context) -> PassResult:
        return PassResult(refusals=(Refusal("never", "nowhere"),))


class Recorder:
    """Writes down what it is told."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def after_pass(self, index: int, model: ir.Model, record: PassRecord) -> None:
        operators = "+".join(node.op_type for node in model.graph)
        self.log.append(f"{self.name} {index} {record.name} {operators}")


def test_passes_run_in_order_and_leave_a_record_each() -> None:
    model = from_text(CHAIN)
    records = run_passes(model, [Rename("Abs", "Exp"), OnlyRefuse(), Rename("Exp", "Tanh")], CONTEXT)
    assert [node.op_type for node in model.graph] == ["Relu", "Neg", "Tanh"]
    assert [record.name for record in records] == [
        "rename{old='Abs',new='Exp'}",
        "only-refuse",
        "rename{old='Exp',new='Tanh'}",
    ]
    assert [record.changes for record in records] == [("Abs -> Exp",), (), ("Exp -> Tanh",)]
    assert records[1].refusals == (Refusal("never", "nowhere"),)
    assert all(record.seconds >= 0 for record in records)


def test_a_pass_that_breaks_the_graph_is_a_bug_and_is_named() -> None:
    with pytest.raises(
        InternalError, match=r"invalid graph after lose-node: Abs '' reads 'b' before it is defined"
    ):
        run_passes(from_text(CHAIN), [OnlyRefuse(), LoseNode()], CONTEXT)


def test_a_broken_graph_at_the_start_is_the_importers() -> None:
    with pytest.raises(InternalError, match="invalid graph after import: 'x' is both input and output"):
        run_passes(from_text(HEADER + "g (float[2] x) => (float[2] x) { y = Relu (x) }"), [], CONTEXT)


def test_a_pass_that_raises_is_a_bug_and_is_named() -> None:
    with pytest.raises(InternalError, match=r"the pass raise\{.*\} failed: KeyError: 'k'") as info:
        run_passes(from_text(CHAIN), [Raise(KeyError("k"))], CONTEXT)
    assert isinstance(info.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [RefusedError("too large"), InternalError("invalid"), KeyboardInterrupt()])
def test_errors_on_purpose_pass_through(error: Exception) -> None:
    with pytest.raises(type(error)) as info:
        run_passes(from_text(CHAIN), [Raise(error)], CONTEXT)
    assert info.value is error


def test_check_sees_each_changed_model_and_its_verdict_propagates() -> None:
    seen = []

    def check(model: ir.Model, current: Pass) -> None:
        seen.append((str(current), [node.op_type for node in model.graph]))
        if len(seen) == 2:
            raise VerdictError(f"{current} changed what the model computes")

    passes = [Rename("Abs", "Exp"), OnlyRefuse(), Rename("Neg", "Sin"), Rename("Exp", "Cos")]
    log: list[str] = []
    with pytest.raises(VerdictError, match=r"rename\{old='Neg',new='Sin'\} changed what the model computes"):
        run_passes(
            from_text(CHAIN), passes, CONTEXT, checks=Checks(model=check), observers=[Recorder(log, "a")]
        )
    assert [operators for _, operators in seen] == [["Relu", "Neg", "Exp"], ["Relu", "Sin", "Exp"]]
    assert len(log) == 2


@dataclasses.dataclass(frozen=True)
class Round(Rename):
    """Rename within a budget."""

    relation = Relation.WITHIN


def test_a_pass_within_a_budget_is_judged_by_the_budget_and_no_other_by_it() -> None:
    compared: list[str] = []

    def regions(before: ir.Model, after: ir.Model) -> list[Rejected]:
        compared.append(f"regions {before.graph.node(-1).op_type} {after.graph.node(-1).op_type}")
        return []

    def budget(before: ir.Model, after: ir.Model, current: Pass) -> None:
        compared.append(f"budget {before.graph.node(-1).op_type} {after.graph.node(-1).op_type}")
        if current == Round("Exp", "Cos"):
            raise VerdictError(f"{current} costs too much")

    checks = Checks(regions=regions, budget=budget)
    passes = [Rename("Abs", "Sin"), Round("Sin", "Exp"), Round("Sin", "Exp")]
    run_passes(from_text(CHAIN), passes, CONTEXT, checks=checks)
    assert compared == ["regions Abs Sin", "budget Sin Exp"]
    with pytest.raises(VerdictError, match=r"round\{old='Exp',new='Cos'\} costs too much"):
        run_passes(from_text(CHAIN), [Rename("Abs", "Exp"), Round("Exp", "Cos")], CONTEXT, checks=checks)


def test_observers_are_called_in_order_after_every_pass() -> None:
    log: list[str] = []
    observers = [Recorder(log, "a"), Recorder(log, "b")]
    run_passes(from_text(CHAIN), [Rename("Abs", "Exp"), OnlyRefuse()], CONTEXT, observers=observers)
    assert log == [
        "a 0 rename{old='Abs',new='Exp'} Relu+Neg+Exp",
        "b 0 rename{old='Abs',new='Exp'} Relu+Neg+Exp",
        "a 1 only-refuse Relu+Neg+Exp",
        "b 1 only-refuse Relu+Neg+Exp",
    ]


def test_an_observer_that_fails_is_not_silenced() -> None:
    class Failing:
        def after_pass(self, index: int, model: ir.Model, record: PassRecord) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run_passes(from_text(CHAIN), [OnlyRefuse()], CONTEXT, observers=[Failing()])


def test_dumps_are_named_by_number_and_pass_and_only_for_changes(tmp_path: Path) -> None:
    directory = tmp_path / "dump" / "ir"
    passes = [OnlyRefuse(), Rename("Abs", "Exp"), Rename("Abs", "Exp"), Rename("Exp", "Cos")]
    run_passes(from_text(CHAIN), passes, CONTEXT, observers=[DumpObserver(directory)])
    assert sorted(path.name for path in directory.iterdir()) == ["001_rename.onnxtxt", "003_rename.onnxtxt"]
    assert "y = Exp (b)" in (directory / "001_rename.onnxtxt").read_text()
    assert [node.op_type for node in from_text((directory / "003_rename.onnxtxt").read_text()).graph][
        -1
    ] == "Cos"


def test_no_changes_no_folder(tmp_path: Path) -> None:
    run_passes(from_text(CHAIN), [OnlyRefuse()], CONTEXT, observers=[DumpObserver(tmp_path / "dump")])
    assert not (tmp_path / "dump").exists()


SCOPED = HEADER + (
    "g (float[N,1,4] x) => (float[N,1,4] y, float[2] k, float[N,1,4] z, float[N,1,4] z2)"
    "<float[1,1,1] w = {2}, float[1] s = {3}, float[1] t = {4}, float[1] m = {5}, float[1] v = {6}>"
    "{ a = Identity (x) c = Conv (a, w) y = BatchNormalization (c, s, t, m, v)"
    "  p = Constant <value_floats = [1.0, 2.0]> () k = Neg (p) z = Tanh (y) z2 = Tanh (y) }"
)


def test_scopes_survive_and_changes_speak_the_modules_words() -> None:
    model = from_text(SCOPED)
    for node in model.graph:
        module = f"net.{node.op_type.lower()}"
        node.metadata_props[SCOPES] = f"['', 'net', '{module}', 'op']"
        node.metadata_props[STACK] = 'File "/src/model.py", line 12, in forward'
    records = run_passes(model, [cls() for cls in PASSES], CONTEXT)
    scopes = {node.op_type: node.metadata_props.get(SCOPES, "") for node in model.graph}
    assert set(scopes) == {"Conv", "Identity", "Tanh"}
    assert all(scopes.values()), scopes
    assert scopes["Conv"] == "['', 'net', 'net.conv', 'op']"
    changes = [change for record in records for change in record.changes]
    assert "net.conv (model.py:12): Conv + BatchNormalization -> Conv" in changes
    assert "net.neg (model.py:12): Neg -> constant" in changes
    assert all("\n" not in change for change in changes)


def test_the_notes_of_sources_name_the_parameters() -> None:
    model = from_text(SCOPED)
    run_passes(model, [FoldConstants(), FoldBatchNorm()], CONTEXT)
    notes = {name: value.metadata_props["aotc.source"] for name, value in model.graph.initializers.items()}
    assert notes == {"k_folded": "", "w": "w,s,v", "w_folded_bias": "s,t,m,v"}
