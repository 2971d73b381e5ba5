"""Whole builds of sources that are no Python files: the engine answers as the saved model did."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_timm
import torch
from tiny_models import Cnn
from torch.export import Dim

import aotc
from aotc import pipeline
from aotc.config import Options
from aotc.errors import UsageError
from aotc.sources import open_source

OPTIONS = Options(threads=1, trust_source=True)
FACTORY = """
import torch
from tiny_models import Mlp

def net():
    torch.manual_seed(0)
    return Mlp().eval()

def inputs():
    return {"x": torch.ones(2, 8)}
"""


def test_a_program(tmp_path: Path) -> None:
    model = Cnn().eval()
    shapes = ({0: Dim("batch", max=6)},)
    exported = torch.export.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=shapes)
    torch.export.save(exported, tmp_path / "cnn.pt2")
    source = open_source(tmp_path / "cnn.pt2", sizes={"x_0": (1, 2, 6)}, options=OPTIONS)
    result = pipeline.build(source, OPTIONS, tmp_path / "new")
    assert result.description.options["trust_source"] is True
    images = torch.randn(5, 3, 8, 8)
    with aotc.load(tmp_path / "new") as engine, torch.inference_mode():
        np.testing.assert_allclose(engine.run(images.numpy()), model(images).numpy(), rtol=1e-4, atol=1e-6)
    assert aotc.check(tmp_path / "new", tmp_path / "cnn.pt2", trust_source=True).passed
    with pytest.raises(UsageError, match="can execute code"):
        aotc.check(tmp_path / "new", tmp_path / "cnn.pt2")


def test_programs_give_the_same_bytes_again(tmp_path: Path) -> None:
    exported = torch.export.export(Cnn().eval(), (torch.randn(2, 3, 8, 8),))
    torch.export.save(exported, tmp_path / "cnn.pt2")
    digests = {
        pipeline.build(
            open_source(tmp_path / "cnn.pt2", options=OPTIONS), OPTIONS, tmp_path / out
        ).description.digest
        for out in ("a", "b")
    }
    assert len(digests) == 1


def test_a_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("factory_of_net.py").write_text(FACTORY)
    pipeline.build(open_source(Path("factory_of_net:net")), OPTIONS, tmp_path / "new")
    module = sys.modules.pop("factory_of_net")
    with aotc.load("new") as engine, torch.inference_mode():
        x = torch.ones(2, 8)
        np.testing.assert_allclose(engine.run(x=x.numpy()), module.net()(x).numpy(), rtol=1e-4, atol=1e-6)


def test_a_timm_folder(tmp_path: Path) -> None:
    folder = tiny_timm.save(tmp_path / "resnet")
    pipeline.build(open_source(folder), OPTIONS, tmp_path / "new")
    assert aotc.check(tmp_path / "new", folder).passed
    own = tiny_timm.require().create_model(f"local-dir:{folder}", pretrained=True).eval()
    images = torch.randn(3, 3, 160, 160)
    with aotc.load(tmp_path / "new") as engine, torch.inference_mode():
        np.testing.assert_allclose(engine.run(images.numpy()), own(images).numpy(), rtol=1e-4, atol=1e-5)
        assert b'"test_resnet"' in engine.asset("config.json")
