"""``aotc bench`` on a small bundle: what it prints and how it exits; never how long anything took."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from aotc.cli.main import main
from aotc.config import Options
from aotc.export.source import load_source
from aotc.pipeline import build

SOURCE = """
import torch
from torch import nn
from torch.export import Dim

dynamic_shapes = {"x": {0: Dim("batch")}}
profiles = [{"batch": (1, 2, 8)}, {"batch": (1, 5, 8)}]


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = model()

    def forward(self, x):
        return self.layers(x)


def inputs():
    return (torch.randn(3, 8, generator=torch.Generator().manual_seed(1)),)
"""
NAMED = SOURCE.replace("def model():", "def layers():").replace("= model()", "= layers()")
NAMED += "\n\ndef model():\n    return Named().eval()\n"
ONE_ROW = NAMED.replace("torch.randn(3,", "torch.randn(1,")
OTHER = NAMED.replace("forward(self, x)", "forward(self, y)").replace("layers(x)", "layers(y)")
OTHER = OTHER.replace('"x"', '"y"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    for name, text in {"mlp.py": NAMED, "other.py": OTHER, "one_row.py": ONE_ROW}.items():
        (folder / name).write_text(text)
    build(load_source(folder / "mlp.py"), Options(), folder / "bundle")
    return folder


@pytest.fixture
def aotc(folder, monkeypatch, capfd):
    """Run the command line in ``folder``; return exit code, stdout, stderr."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["aotc", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capfd.readouterr()
        return exit_.value.code, out, err

    return run


def test_one_json_document_with_every_profile(aotc):
    code, out, err = aotc("bench", "bundle", "--repeat", "2", "--threads", "1", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert document["digest"] == json.loads(Path("bundle/bundle.json").read_text())["digest"]
    assert (document["threads"], document["repeat"]) == (1, 2)
    assert set(document["load"]) == {"verify_s", "create_s", "first_run_s"}
    assert set(document["machine"]) == {"cpu", "cores", "flags"}
    assert set(document["load_average"]) == {"before", "after"}
    assert isinstance(document["busy"], bool)
    assert [entry["sizes"] for entry in document["sizes"]] == [{"batch": 2}, {"batch": 5}]
    for entry in document["sizes"]:
        assert set(entry["runners"]) == {"aotc"}
        figures = entry["runners"]["aotc"]
        assert figures["count"] == 2
        assert figures["ratio"] == 1.0
        assert 0 < figures["best_s"] <= figures["p50_s"] <= figures["p95_s"]
    assert "load" in err


def test_source_adds_eager_and_the_plain_export(aotc):
    code, out, _ = aotc("bench", "bundle", "--vs", "mlp.py", "--sizes", "batch=4", "--repeat", "1", "--json")
    assert code == 0
    (entry,) = json.loads(out)["sizes"]
    assert entry["sizes"] == {"batch": 4}
    assert list(entry["runners"]) == ["aotc", "eager", "plain export"]
    assert all(figures["ratio"] > 0 for figures in entry["runners"].values())


def test_a_failed_export_is_a_row_with_its_reason(aotc, monkeypatch):
    import torch

    def refuse(*_, **__):
        raise RuntimeError("operator not supported")

    monkeypatch.setattr(torch.onnx, "export", refuse)
    arguments = ("bench", "bundle", "--vs", "mlp.py", "--sizes", "batch=4", "--repeat", "1")
    code, out, _ = aotc(*arguments, "--json")
    assert code == 0
    runners = json.loads(out)["sizes"][0]["runners"]
    assert runners["plain export"] == {"failure": "RuntimeError: operator not supported"}
    assert "p50_s" in runners["eager"]
    code, out, _ = aotc(*arguments)
    assert code == 0
    assert "RuntimeError: operator not supported" in out


def test_the_table_names_bundle_machine_and_runners(aotc):
    code, out, _ = aotc("bench", "bundle", "--vs", "mlp.py", "--sizes", "batch=4", "--repeat", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("bundle bundle (digest ")
    assert lines[1].startswith("machine: ")
    assert "load average before" in lines[1]
    assert "x aotc's time" in out
    for name in ("aotc", "eager", "plain export"):
        assert any(line.split()[1:2] == [name.split()[0]] for line in lines if line.startswith("batch=4"))


def test_the_source_of_another_model_is_refused(aotc):
    code, out, err = aotc("bench", "bundle", "--vs", "other.py", "--repeat", "1")
    assert (code, out) == (2, "")
    assert "takes other arguments" in err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("bundle", "--sizes", "rows=4"), 2, "no input has the dim 'rows'"),
        (("bundle", "--sizes", "batch=9"), 2, "must be 1 to 8, not 9"),
        (("bundle", "--sizes", "batch"), 2, "is not like batch=1,seq=128"),
        (("bundle", "--sizes", "batch=-1"), 2, "is not like batch=1,seq=128"),
        (("bundle", "--repeat", "0"), 2, "--repeat"),
        (("bundle", "--vs", "missing.py"), 2, "there is no source file"),
        (("nowhere",), 2, "there is no bundle"),
        (("damaged",), 4, "error[integrity]"),
    ],
)
def test_what_cannot_be_measured_says_why(aotc, folder, arguments, code, text):
    damaged = folder / "damaged"
    if not damaged.exists():
        damaged.mkdir()
        (damaged / "bundle.json").write_text("{}")
    got, out, err = aotc("bench", *arguments)
    assert (got, out) == (code, "")
    assert text in err


def test_threads_of_torch_are_put_back(aotc):
    import torch

    before = torch.get_num_threads()
    aotc(
        "bench",
        "bundle",
        "--vs",
        "mlp.py",
        "--sizes",
        "batch=1",
        "--repeat",
        "1",
        "--threads",
        str(before + 1),
    )
    assert torch.get_num_threads() == before
