from __future__ import annotations

import gc
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from aotc.errors import AotcError, InputError, UsageError
from aotc.runtime import Engine, load
from aotc.runtime.failures import runtime_failures, text_of

Publish = Callable[..., Any]
IDS = np.array([[1, 2, 3], [4, 5, 6]])
BIAS = np.array(0.5, dtype=np.float32)


@pytest.fixture
def engine(bundle: Path) -> Engine:
    return load(bundle, threads=1)


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_takes_what_forward_takes_and_returns_its_structure(engine: Engine, tiny: Any) -> None:
    result = engine.run({"ids": IDS}, bias=BIAS)
    assert list(result) == ["out", "sizes"]
    assert isinstance(result.out, tuple)
    close(result.out[0], tiny.reference(IDS, 0.5))
    np.testing.assert_array_equal(result["sizes"], IDS.shape)


def test_positional_arguments_may_be_given_by_name(engine: Engine, tiny: Any) -> None:
    close(engine.run(batch={"ids": IDS}, bias=BIAS).out[0], tiny.reference(IDS, 0.5))


def test_takes_torch_tensors(engine: Engine, tiny: Any) -> None:
    bias = torch.tensor(0.5, requires_grad=True)
    result = engine.run({"ids": torch.from_numpy(IDS)}, bias=bias)
    assert type(result.out[0]) is np.ndarray
    close(result.out[0], tiny.reference(IDS, 0.5))
    transposed = torch.from_numpy(np.ascontiguousarray(IDS.T)).T
    assert not transposed.is_contiguous()
    close(engine.run({"ids": transposed}, bias=bias).out[0], tiny.reference(IDS, 0.5))


def test_takes_any_layout_and_byte_order(engine: Engine, tiny: Any) -> None:
    layouts = [np.asfortranarray(IDS), np.repeat(IDS, 2, axis=1)[:, ::2], IDS[::-1][::-1], IDS.astype(">i8")]
    for ids in layouts:
        result = engine.run_flat({"ids": ids, "bias": BIAS.astype(">f4")})
        close(result["y"], tiny.reference(IDS, 0.5))


def test_inputs_are_left_alone(engine: Engine) -> None:
    ids = IDS.copy()
    ids.flags.writeable = False
    engine.run({"ids": ids}, bias=BIAS)
    np.testing.assert_array_equal(ids, IDS)


BAD: dict[str, tuple[Callable[[Engine], object], str]] = {
    "missing": (lambda e: e.run({"ids": IDS}), "the argument 'bias' is missing"),
    "unknown": (lambda e: e.run({"ids": IDS}, bias=BIAS, x=1), "unexpected argument 'x'"),
    "too many": (lambda e: e.run({"ids": IDS}, BIAS), "forward takes 1 positional arguments, not 2"),
    "structure": (lambda e: e.run(IDS, bias=BIAS), "batch must have the fields ['ids']"),
    "scalar": (lambda e: e.run({"ids": IDS}, bias=0.5), "bias must be an array, not float"),
    "list": (lambda e: e.run({"ids": [[1]]}, bias=BIAS), "batch.ids must be an array, not list"),
    "dtype": (
        lambda e: e.run({"ids": IDS.astype("int32")}, bias=BIAS),
        "the input 'ids' must be int64, not int32",
    ),
    "float64": (lambda e: e.run({"ids": IDS}, bias=np.array(0.5)), "'bias' must be float32, not float64"),
    "rank": (lambda e: e.run({"ids": IDS[0]}, bias=BIAS), "the input 'ids' must have 2 axes, not 1"),
    "profile": (
        lambda e: e.run({"ids": np.ones((5, 1), "int64")}, bias=BIAS),
        "no profile allows these sizes: 'batch' must be 1 to 4, not 5",
    ),
    "empty": (lambda e: e.run({"ids": np.ones((1, 0), "int64")}, bias=BIAS), "'seq' must be 1 to 8, not 0"),
    "range": (
        lambda e: e.run({"ids": np.array([[0, 10]])}, bias=BIAS),
        "the input 'ids' must hold values from 0 to 9, not 10",
    ),
    "negative": (lambda e: e.run({"ids": np.array([[-1]])}, bias=BIAS), "values from 0 to 9, not -1"),
    "flat missing": (lambda e: e.run_flat({"ids": IDS}), "the input 'bias' is missing"),
    "flat unknown": (
        lambda e: e.run_flat({"ids": IDS, "bias": BIAS, "x": IDS}),
        "there is no input 'x'",
    ),
    "flat scalar": (
        lambda e: e.run_flat({"ids": IDS, "bias": 0.5}),
        "the input 'bias' must be an array, not float",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_call_is_an_input_error(engine: Engine, case: str) -> None:
    call, text = BAD[case]
    with pytest.raises(InputError, match=re.escape(text)):
        call(engine)


def unchecked(publish: Publish, folder: Path, tiny: Any) -> Engine:
    """Return an engine whose signature does not know the range of the ids."""
    signature = tiny.make_signature()
    ids = signature.inputs[0].model_copy(update={"range": None})
    publish(folder, signature=signature.model_copy(update={"inputs": (ids, signature.inputs[1])}))
    return load(folder)


def test_what_a_kernel_refuses_is_an_input_error(
    tmp_path: Path, publish: Publish, tiny: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = unchecked(publish, tmp_path / "m", tiny)
    with pytest.raises(InputError, match=r"the engine failed: .*indices element out of data bounds, idx=99"):
        engine.run({"ids": np.array([[99]])}, bias=BIAS)
    close(engine.run({"ids": IDS}, bias=BIAS).out[0], tiny.reference(IDS, 0.5))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")  # the text is in the exception, and only there


def test_another_failure_is_an_aotc_error(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException

    class Broken:
        def run(self, *args: Any) -> None:
            raise failure("[ONNXRuntimeError] : 6 : out of luck")

    monkeypatch.setattr(engine, "_loaded", (Broken(), {}))
    with pytest.raises(AotcError, match=r"the engine failed: .*out of luck") as caught:
        engine.run({"ids": IDS}, bias=BIAS)
    assert not isinstance(caught.value, InputError)


def test_a_text_that_is_not_utf8_is_shown() -> None:
    error = UnicodeDecodeError("utf-8", b"bad name \xff here", 9, 10, "invalid start byte")
    assert isinstance(error, runtime_failures())
    assert text_of(error) == "bad name \\xff here"


def test_a_closed_engine_says_so(engine: Engine) -> None:
    with engine:
        engine.run({"ids": IDS}, bias=BIAS)
    engine.close()
    with pytest.raises(UsageError, match="this engine is closed"):
        engine.run({"ids": IDS}, bias=BIAS)


def test_the_weights_live_as_long_as_the_session(bundle: Path, tiny: Any) -> None:
    engine = load(bundle)
    run = engine.run
    del engine
    gc.collect()
    _ = [bytearray(2**20) for _ in range(64)]  # would reuse the memory, were it free
    close(run({"ids": IDS}, bias=BIAS).out[0], tiny.reference(IDS, 0.5))


def test_runs_from_many_threads_are_independent(bundle: Path, tiny: Any) -> None:
    engine = load(bundle, threads=2)
    rng = np.random.default_rng(1)
    calls = [(rng.integers(0, 10, (1 + i % 4, 1 + i % 8)), np.float32(i)) for i in range(32)]
    alone = [engine.run({"ids": ids}, bias=bias).out[0] for ids, bias in calls]

    def work(_: int) -> None:
        for (ids, bias), expected in zip(calls, alone, strict=True):
            np.testing.assert_array_equal(engine.run({"ids": ids}, bias=bias).out[0], expected)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, index) for index in range(40)]:
            future.result()


def test_closing_during_runs_is_safe(bundle: Path) -> None:
    engine = load(bundle)

    def work(index: int) -> bool:
        if index == 20:
            engine.close()
        try:
            engine.run({"ids": IDS}, bias=BIAS)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert not all(pool.map(work, range(60)))
