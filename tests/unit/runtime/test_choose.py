from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from aotc.bundle import Requirements
from aotc.errors import CompatibilityError
from aotc.runtime import load

Publish = Callable[..., Any]
VERSION = onnxruntime.__version__


def test_the_only_engine(bundle: Path) -> None:
    assert load(bundle).selection == "portable: the bundle's only engine"


def test_the_optimised_engine_where_it_was_made(tmp_path: Path, publish: Publish, here: Requirements) -> None:
    publish(tmp_path / "m", requires=here)
    engine = load(tmp_path / "m")
    assert engine.selection == f"ort-optimised: same onnxruntime {VERSION} and CPU flags"
    assert engine.run({"ids": np.array([[1]])}, bias=np.float32(0)).out[0].shape == (1, 1, 64)


def test_another_runtime(tmp_path: Path, publish: Publish, here: Requirements) -> None:
    publish(tmp_path / "m", requires=here.model_copy(update={"onnxruntime": "1.31.0"}))
    assert load(tmp_path / "m").selection == f"portable: built with onnxruntime 1.31.0, here {VERSION}"


def test_another_processor(tmp_path: Path, publish: Publish, here: Requirements) -> None:
    more = tuple(sorted([*here.cpu_flags, "avx_new"]))
    publish(tmp_path / "more", requires=here.model_copy(update={"cpu_flags": more}))
    text = "portable: built with CPU flags that this machine lacks: avx_new"
    assert load(tmp_path / "more").selection == text
    publish(tmp_path / "less", requires=here.model_copy(update={"cpu_flags": here.cpu_flags[1:]}))
    text = f"portable: built without CPU flags that this machine has: {here.cpu_flags[0]}"
    assert load(tmp_path / "less").selection == text


def test_no_engine_for_this_machine(tmp_path: Path, publish: Publish) -> None:
    publish(tmp_path / "m", requires=Requirements(onnxruntime="1.2", cpu_flags=()), portable=False)
    with pytest.raises(CompatibilityError, match="no engine of this bundle runs on this machine: built with"):
        load(tmp_path / "m")
