"""``aotc run``: inputs from a file or drawn, outputs shown or written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from aotc.cli.arrays import read_npz
from aotc.parity.golden import write_arrays


def test_runs_inputs_from_a_file_and_writes_outputs(cli, folder: Path) -> None:
    np.savez(folder / "in.npz", x=np.ones((3, 4), np.float32))
    done = cli("run", "bundle", "--input", "in.npz", "--out", "out.npz", "--threads", "1", "--json")
    assert done.code == 0, done.err
    with np.load(folder / "out.npz") as written:
        logits = written["logits"]
    document = done.document("run")
    assert document["outputs"]["logits"] == {
        "dtype": "float32",
        "shape": [3, 3],
        "min": pytest.approx(float(logits.min())),
        "max": pytest.approx(float(logits.max())),
        "mean": pytest.approx(float(logits.astype(np.float64).mean())),
        "not_finite": 0,
    }
    assert document["engine"].startswith("ort-optimised: same onnxruntime")


def test_draws_inputs_from_a_seed(cli, folder: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        done = cli("run", "bundle", "--random", "--seed", seed, "--out", name)
        assert done.code == 0, done.err
        assert re.search(r"logits +float32 +\[2, 3\] ", done.out)
        assert re.search(r"ms, first run \(ort-optimised: ", done.err)
    a, b, c = ((folder / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_nan_and_inf_are_counted_and_not_printed_as_json(cli, folder: Path) -> None:
    np.savez(folder / "in.npz", x=np.full((1, 4), np.nan, np.float32))
    document = cli("run", "bundle", "--input", "in.npz", "--json").document("run")
    figures = document["outputs"]["logits"]
    assert figures["not_finite"] == 3
    assert figures["mean"] is None


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        (
            (9, 4),
            "float32",
            "error[input]: no profile allows these sizes: 'batch' must be 1 to 8, not 9\n"
            "  fix: build with a wider profile, or split the input",
        ),
        (
            (2, 4),
            "float64",
            "error[input]: the input 'x' must be float32, not float64\n"
            "  fix: pass x.astype('float32') if that keeps its values",
        ),
        ((2, 5), "float32", "error[input]: axis 1 of input 'x' must be 4, not 5"),
    ],
)
def test_inputs_that_the_signature_refuses(cli, folder: Path, shape, dtype: str, text: str) -> None:
    np.savez(folder / "in.npz", x=np.zeros(shape, dtype))
    done = cli("run", "bundle", "--input", "in.npz")
    assert (done.code, done.error) == (2, text)


@pytest.mark.parametrize("args", [[], ["--random", "--input", "model.py"]])
def test_inputs_come_from_one_place(cli, folder: Path, args: list[str]) -> None:
    done = cli("run", "bundle", *args)
    assert done.code == 2
    assert done.error == "error[usage]: give either --input FILE or --random\n  fix: aotc run --help"


def test_an_array_that_is_no_archive(cli, folder: Path) -> None:
    np.save(folder / "one.npy", np.zeros(3))
    done = cli("run", "bundle", "--input", "one.npy")
    assert done.code == 2
    assert done.error == (
        "error[input]: one.npy is not an .npz archive of named arrays\n"
        "  fix: numpy.savez(file, name=array, ...) writes one"
    )


def test_an_array_may_have_any_name(tmp_path: Path) -> None:
    arrays = {"file": np.zeros(2), "allow_pickle": np.ones(3)}
    write_arrays(tmp_path / "a.npz", arrays)
    assert {name: len(value) for name, value in read_npz(tmp_path / "a.npz").items()} == {
        "file": 2,
        "allow_pickle": 3,
    }


def test_pickled_objects_are_refused(cli, folder: Path) -> None:
    np.savez(folder / "in.npz", x=np.array([{}], dtype=object))
    done = cli("run", "bundle", "--input", "in.npz")
    assert done.code == 2
    assert done.error.startswith("error[input]: in.npz cannot be read as arrays: ")
