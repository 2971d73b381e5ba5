"""Sessions: what a stream keeps between calls, and the calls that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from aotc.errors import InputError, UsageError
from aotc.runtime import Engine, load
from aotc.signature import Argument, Signature, TensorSpec
from aotc.tree import Dict, TensorLeaf

Publish = Callable[..., Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.array([[1, 2], [3, 4]], np.float32)


def signature(rows: str = "batch") -> Signature:
    """Return ``forward(total, x, *, count) -> {sum: total.next, count: count.next}``."""
    return Signature(
        arguments=tuple(
            Argument(name=name, kind=kind, tree=TensorLeaf(name=name))
            for name, kind in (("total", "positional"), ("x", "positional"), ("count", "keyword"))
        ),
        inputs=(
            TensorSpec(name="total", dtype="float32", shape=(rows, 2)),
            TensorSpec(name="x", dtype="float32", shape=("batch", 2)),
            TensorSpec(name="count", dtype="int64", shape=()),
        ),
        outputs=(
            TensorSpec(name="total.next", dtype="float32", shape=(rows, 2)),
            TensorSpec(name="count.next", dtype="int64", shape=()),
        ),
        result=Dict(
            kind="dict",
            entries=(("sum", TensorLeaf(name="total.next")), ("count", TensorLeaf(name="count.next"))),
        ),
        state={"count": "count.next", "total": "total.next"},
    )


def model() -> Any:
    """Return total.next = total + x, count.next = count + 1."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["total", "x"], ["total.next"]),
            helper.make_node("Constant", [], ["one"], value=helper.make_tensor("", INT64, [], [1])),
            helper.make_node("Add", ["count", "one"], ["count.next"]),
        ],
        "running sum",
        [
            helper.make_tensor_value_info("total", FLOAT, [None, 2]),
            helper.make_tensor_value_info("x", FLOAT, ["batch", 2]),
            helper.make_tensor_value_info("count", INT64, []),
        ],
        [
            helper.make_tensor_value_info("total.next", FLOAT, [None, 2]),
            helper.make_tensor_value_info("count.next", INT64, []),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture
def engine(tmp_path: Path, publish: Publish) -> Engine:
    publish(tmp_path / "sum", model=model(), signature=signature())
    return load(tmp_path / "sum", threads=1)


def test_a_session_keeps_the_state(engine: Engine) -> None:
    session = engine.session()
    for step in (1, 2, 3):
        result = session.run(X)
        assert list(result) == ["sum", "count"]  # the structure of forward's result
        np.testing.assert_array_equal(result["sum"], step * X)
        assert result["count"] == step


def test_state_may_be_given_in_part_and_reset_goes_back_to_it(engine: Engine) -> None:
    total = np.full((2, 2), 10, np.float32)
    session = engine.session(total=total)
    total[:] = 99
    for _ in range(2):
        np.testing.assert_array_equal(session.run(x=X)["sum"], 10 + X)
        assert session.run(X)["count"] == 2
        session.reset()


def test_what_the_caller_does_to_a_result_does_not_change_the_stream(engine: Engine) -> None:
    session = engine.session()
    session.run(X)["sum"][:] = 99
    np.testing.assert_array_equal(session.run(X)["sum"], 2 * X)


def test_sessions_are_independent(engine: Engine) -> None:
    def stream(index: int) -> Any:
        session = engine.session()
        return [session.run(index * X)["sum"] for _ in range(50)][-1]

    with ThreadPoolExecutor(4) as pool:
        for index, total in enumerate(pool.map(stream, range(8))):
            np.testing.assert_array_equal(total, 50 * index * X)


def test_reset_allows_another_batch(engine: Engine) -> None:
    session = engine.session()
    session.run(X)
    session.reset()
    np.testing.assert_array_equal(session.run(X[:1])["sum"], X[:1])


def test_a_refused_call_leaves_the_stream_as_it_was(engine: Engine) -> None:
    session = engine.session()
    session.run(X)
    for wrong, message in (
        (X[:1], "this stream has 'batch' = 2, this call 1"),
        (X.astype("float64"), "the input 'x' must be float32, not float64"),
        (X[0], "the input 'x' must have 2 axes, not 1"),
        (X[:, :1], "axis 1 of input 'x' must be 2, not 1"),
    ):
        with pytest.raises(InputError, match=message):
            session.run(wrong)
    np.testing.assert_array_equal(session.run(X)["sum"], 2 * X)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"totals": X}, "there is no state 'totals'"),
        ({"x": X}, "there is no state 'x'"),
        ({"total": 0.5}, "the input 'total' must be an array, not float"),
        ({"total": X[0]}, "the input 'total' must have 2 axes, not 1"),
        ({"total": X.astype("float64")}, "the input 'total' must be float32, not float64"),
        ({"total": X[:1]}, "this stream has 'batch' = 1, this call 2"),
        ({"total": X[:, :1]}, "axis 1 of input 'total' must be 2, not 1"),
    ],
)
def test_wrong_first_values_are_refused(engine: Engine, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        engine.session(**given).run(X)


def test_state_is_no_argument_of_a_session(engine: Engine) -> None:
    with pytest.raises(InputError, match="unexpected argument 'count'"):
        engine.session().run(X, count=np.array(1))


def test_a_size_that_no_other_input_says_must_be_given(tmp_path: Path, publish: Publish) -> None:
    publish(tmp_path / "sum", model=model(), signature=signature(rows="rows"))
    engine = load(tmp_path / "sum", threads=1)
    with pytest.raises(InputError, match=r"no other input says the size 'rows'.*\n.*session\(total=\.\.\.\)"):
        engine.session().run(X)
    np.testing.assert_array_equal(engine.session(total=X).run(X)["sum"], 2 * X)


def test_an_engine_without_state_says_how_to_declare_it(bundle: Path) -> None:
    with pytest.raises(UsageError, match=r'no state.*\n.*state = \{"INPUT": "OUTPUT"\}'):
        load(bundle).session()


def test_a_session_ends_with_its_engine(engine: Engine) -> None:
    session = engine.session()
    engine.close()
    with pytest.raises(UsageError, match="this engine is closed"):
        session.run(X)
