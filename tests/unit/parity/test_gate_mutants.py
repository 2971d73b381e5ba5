"""The gate by mutation: wrong graphs are caught, right ones pass. docs/gate.md has all models and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gate_equivalence import Equivalence
from gate_models import TINY
from gate_report import Result, try_model
from gate_trial import Recorded, record
from mutate import KINDS, mutants

NAMES = ("mlp", "cnn", "audio", "gru", "Llama")
SEEDS = range(1, 4)

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own


@pytest.fixture(scope="module", params=NAMES)
def tried(request: pytest.FixtureRequest) -> Result:
    return try_model(request.param, each=1, seeds=SEEDS)


def test_wrong_graphs_are_caught(tried: Result) -> None:
    assert [trial for trial in tried.trials if trial.outcome == "survived"] == []
    assert sum(trial.outcome == "caught" for trial in tried.trials) >= 10


def test_right_graphs_give_no_false_alarm(tried: Result) -> None:
    assert len(tried.right) == len(SEEDS)
    assert all(alarm.passed and alarm.ratio < 0.8 for alarm in tried.right), tried.right


@pytest.fixture(scope="module")
def mlp(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(TINY["mlp"](), tmp_path_factory.mktemp("mlp"))


def test_what_equals_the_original_is_equivalent(mlp: Recorded) -> None:
    assert Equivalence(mlp).of(mlp.model.clone(), rounds=False).equivalent


@pytest.mark.parametrize("kind", ["weight times 1.01", "epsilon", "one element of a weight", "erf or tanh"])
def test_what_differs_anywhere_is_not_equivalent(mlp: Recorded, kind: str) -> None:
    mutant = next(m for m in mutants(mlp.model, "mlp", mlp.example, 1) if m.kind == kind)
    found = Equivalence(mlp).of(mutant.model, rounds=False)
    assert not found.equivalent
    assert found.seen > 0


def test_rounding_is_compared_bit_for_bit(mlp: Recorded) -> None:
    mutant = next(m for m in mutants(mlp.model, "mlp", mlp.example, 1) if m.kind == "through fp16")
    assert Equivalence(mlp).of(mutant.model, rounds=True).seen > 0


def test_the_same_name_gives_the_same_mutants_and_leaves_the_graph_alone(mlp: Recorded) -> None:
    before = {name: value.const_value.numpy().copy() for name, value in mlp.model.graph.initializers.items()}
    first, again = ([(m.kind, m.where) for m in mutants(mlp.model, "mlp", mlp.example, 2)] for _ in range(2))
    assert first == again
    assert {kind for kind, _ in first} <= set(KINDS)
    for name, value in mlp.model.graph.initializers.items():
        np.testing.assert_array_equal(value.const_value.numpy(), before[name])


def test_models_are_of_every_kind() -> None:
    root = Path(__file__).resolve().parents[3]
    page = (root / "docs" / "gate.md").read_text(encoding="utf-8")
    assert all(f"| {kind} |" in page for kind in KINDS)
